"""What a run answers over HTTP."""

from __future__ import annotations

import json
import re
import socket
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack, closing
from pathlib import Path

import pytest
from running import ROOT, Etl

from etl.api import EtlError
from etl.config.loader import load
from etl.receipts import Counts, RejectCount
from etl.running.metrics_server import MAX_CONNECTIONS, ListenAddress, metrics_server
from etl.running.planning import RunRequest, planned_run
from etl.running.process_memory import resident_bytes
from etl.running.supervision import SupervisedRun
from etl.spark.reports.totals import SinkTotals, SourceLag


@pytest.fixture
def run(tmp_path: Path) -> SupervisedRun:
    text = 'name: shop\nsource: {type: file, path: "{here}/a.log"}\nsink: {type: file, path: "{here}/b.jsonl"}\n'
    one = planned_run(load(Etl(tmp_path).pipeline(text)), RunRequest(state=str(tmp_path / "state")), "local[1]")
    one.totals.read["main"] = Counts(5, 4)
    one.totals.steps["steps[0] grok"] = Counts(5, 4, 0, 1, seconds=0.25)
    one.totals.rejected["steps[0] grok", "grok-failed"] = RejectCount(1, "does not match", "secret text")
    one.totals.sinks["main"] = SinkTotals(incoming=5, accepted=4, dead=1, seconds=0.5)
    one.totals.event_time = 1
    one.totals.lags["main", "main"] = SourceLag(3, 0, 120)
    one.totals.watermarks["main"] = 1
    return SupervisedRun(one, several=False, restarts=True, on_message=lambda _: None, status="running")


@pytest.fixture
def url(run: SupervisedRun) -> Iterator[str]:
    with metrics_server(ListenAddress("127.0.0.1", 0), [run]) as address:
        yield f"http://{address.host}:{address.port}"


def get(url: str) -> tuple[int, str]:
    try:
        with urllib.request.urlopen(url, timeout=120) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()


def test_metrics_have_the_numbers_of_the_run_and_no_events(url: str) -> None:
    status, text = get(f"{url}/metrics")

    assert status == 200
    for line in (
        'sluice_up{pipeline="shop"} 1',
        'sluice_source_events_total{pipeline="shop",source="main"} 5',
        'sluice_step_work_seconds_total{pipeline="shop",step="steps[0] grok"} 0.25',
        'sluice_sink_write_seconds_total{pipeline="shop",sink="main"} 0.5',
        'sluice_rejected_events_total{pipeline="shop",at="steps[0] grok",code="grok-failed"} 1',
    ):
        assert line in text.splitlines()
    assert re.search(r'^sluice_process_resident_bytes\{process="driver"\} \d{7,}$', text, re.M)
    assert "secret" not in text


def test_the_dashboard_asks_for_metrics_that_there_are(url: str) -> None:
    dashboard = (ROOT / "docs" / "grafana-dashboard.json").read_text("utf-8")

    asked = set(re.findall(r"sluice_\w+", dashboard))

    given = set(re.findall(r"^# TYPE (\w+)", get(f"{url}/metrics")[1], re.M))
    assert asked - given == set()
    assert len(asked) > 10
    assert {name for name in given if "_lag_" in name} <= asked


def test_queries_of_the_dashboard_name_labels_that_their_metrics_have(url: str) -> None:
    panels = json.loads((ROOT / "docs" / "grafana-dashboard.json").read_text("utf-8"))["panels"]
    labels: dict[str, set[str]] = {}
    for name, text in re.findall(r"^(sluice_\w+)\{(.*)\} ", get(f"{url}/metrics")[1], re.M):
        labels.setdefault(name, set()).update(re.findall(r'(\w+)="', text))

    for query in (target["expr"] for panel in panels for target in panel["targets"]):
        (metric,) = re.findall(r"sluice_\w+", query)
        grouped = {name for names in re.findall(r"by \(([^)]*)\)", query) for name in names.split(", ")}
        selected = set(re.findall(r'(\w+)(?:=~|=)"', query))
        assert (query, (grouped | selected) - labels[metric]) == (query, set())
        assert ("rate(" in query or "increase(" in query) == metric.endswith("_total"), query


def test_the_dashboard_is_one_that_grafana_imports() -> None:
    """By "JSON model" in Grafana's documentation."""
    dashboard = json.loads((ROOT / "docs" / "grafana-dashboard.json").read_text("utf-8"))
    panels = dashboard["panels"]

    assert isinstance(dashboard["schemaVersion"], int)
    assert {"title", "uid", "time", "templating"} <= dashboard.keys()
    assert len(dashboard["uid"]) <= 40
    assert len({panel["id"] for panel in panels}) == len(panels)
    cells = [
        (column, row)
        for at in (panel["gridPos"] for panel in panels)
        for column in range(at["x"], at["x"] + at["w"])
        for row in range(at["y"], at["y"] + at["h"])
    ]
    assert len(set(cells)) == len(cells)
    assert max(column for column, _ in cells) < 24
    variables = {f"${{{one['name']}}}" for one in dashboard["templating"]["list"]}
    assert {panel["datasource"]["uid"] for panel in panels} <= variables
    for panel in panels:
        assert panel["title"], panel["id"]
        references = [target["refId"] for target in panel["targets"]]
        assert len(set(references)) == len(references) > 0


def test_health_and_readiness_follow_the_state_of_pipelines(url: str, run: SupervisedRun) -> None:
    assert [get(f"{url}/{name}")[0] for name in ("health", "ready")] == [200, 200]

    run.status = "starting"
    assert [get(f"{url}/{name}")[0] for name in ("health", "ready")] == [200, 503]

    run.status, run.error, run.failures = "waiting", "the disk is full", 3
    status, text = get(f"{url}/health")
    assert status == 503
    assert json.loads(text) == {"pipelines": {"shop": {"status": "waiting", "error": "the disk is full", "restarts": 3}}}


def test_other_paths_are_named(url: str) -> None:
    assert get(f"{url}/other") == (404, "there are /metrics, /health, /ready\n")


def test_clients_who_send_nothing_keep_nobody_out(url: str) -> None:
    host, _, port = url.removeprefix("http://").partition(":")
    with ExitStack() as stack:
        silent = [
            stack.enter_context(closing(socket.create_connection((host, int(port)), timeout=120))) for _ in range(MAX_CONNECTIONS)
        ]
        assert [get(f"{url}/health")[0] for _ in range(3)] == [200] * 3
        assert silent[0].recv(1) == b""  # the one that has waited longest has made room


@pytest.mark.parametrize(
    ("text", "address"),
    [("9464", ("127.0.0.1", 9464)), (":1", ("127.0.0.1", 1)), ("0.0.0.0:2", ("0.0.0.0", 2)), ("[::1]:3", ("::1", 3))],
)
def test_an_address_without_host_is_of_loopback(text: str, address: tuple[str, int]) -> None:
    assert ListenAddress.parse(text) == address


@pytest.mark.parametrize("text", ["", "host", "host:", "1.2.3.4:99999", "1.2.3.4:٣"])
def test_other_texts_are_refused(text: str) -> None:
    with pytest.raises(ValueError, match="is not an address"):
        ListenAddress.parse(text)


def test_a_port_in_use_is_named(run: SupervisedRun) -> None:
    with (
        metrics_server(ListenAddress("127.0.0.1", 0), [run]) as address,
        pytest.raises(EtlError, match=rf"cannot listen at 127.0.0.1:{address.port} \(--listen\)"),
        metrics_server(address, [run]),
    ):
        pass


def test_memory_is_that_of_this_process_at_least() -> None:
    assert resident_bytes()["driver"] > 1 << 20
