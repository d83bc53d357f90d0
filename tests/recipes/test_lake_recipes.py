"""The recipes that end in tables of a lake, and CloudTrail's rules, from end to end."""

from __future__ import annotations

import gzip
import json
import urllib.request
from pathlib import Path
from uuid import uuid4

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic
from running import ROOT, Engine, wait_for
from servers import ports
from servers.brokers.kafka_server import Kafka

SAMPLES = ROOT / "samples"


@pytest.mark.spark
@pytest.mark.slow
def test_messages_of_a_topic_are_rows_of_an_iceberg_table(
    engine: Engine, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, kafka: Kafka
) -> None:
    catalogs = pytest.importorskip("pyiceberg.catalog", reason="pyiceberg is not installed")
    name = f"recipe-{uuid4().hex[:8]}"
    admin = AdminClient(kafka.client())
    admin.create_topics([NewTopic(name, 2, 1)])[name].result(120)
    producer = Producer(kafka.client())
    for number, line in enumerate((SAMPLES / "json-generic.log").read_bytes().splitlines()):
        producer.produce(name, line, partition=number % 2)
    assert producer.flush(30) == 0
    catalog = {"uri": f"sqlite:///{tmp_path / 'catalog.db'}", "warehouse": f"file://{tmp_path / 'warehouse'}"}
    places = {"KAFKA": kafka.address, "TOPIC": name, "GROUP": name, "CATALOG": catalog["uri"], "WAREHOUSE": catalog["warehouse"]}
    for key, value in places.items():
        monkeypatch.setenv(key, value)

    ran = engine.run(ROOT / "pipelines" / "kafka-to-iceberg.yaml", "--once", "--set", "sinks.table.catalog.type=sql")

    assert ran.status == 0, ran.err
    table = catalogs.load_catalog("default", type="sql", **catalog).load_table("logs.events")
    rows = table.scan().to_arrow().sort_by("timestamp").to_pylist()
    assert (ran.done["events"], len(rows)) == (10, 8)
    assert rows[0]["message"] == "login"
    assert [str(field.transform) for field in table.spec().fields] == ["day"]


@pytest.mark.spark
@pytest.mark.slow
def test_events_of_agents_are_rows_of_a_delta_table(engine: Engine, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    deltalake = pytest.importorskip("deltalake", reason="deltalake is not installed")
    hec, beats, forward = ports.free(3)
    places = {"HEC": hec, "BEATS": beats, "FORWARD": forward}
    for key, port in places.items():
        monkeypatch.setenv(f"{key}_LISTEN", f"127.0.0.1:{port}")
    monkeypatch.setenv("TABLE", str(tmp_path / "logs"))
    monkeypatch.setenv("TRIGGER", "1s")
    body = json.dumps({"event": "disk is full", "time": 1795766405, "host": "web-3", "sourcetype": "syslog"})

    def is_sent() -> bool:
        url, headers = f"http://127.0.0.1:{hec}/services/collector", {"Authorization": "Splunk change-me"}
        try:
            with urllib.request.urlopen(urllib.request.Request(url, body.encode(), headers), timeout=120) as answer:
                return bool(answer.status == 200)
        except OSError:
            return False  # not listening yet

    def table() -> list[dict[str, object]]:
        if not (tmp_path / "logs" / "_delta_log").exists():
            return []
        rows: list[dict[str, object]] = deltalake.DeltaTable(str(tmp_path / "logs")).to_pyarrow_table().to_pylist()
        return rows

    with engine.following(ROOT / "pipelines" / "agents-to-lake.yaml"):
        wait_for(is_sent, what="the receiver")
        wait_for(table, what="the row")

    (row,) = table()
    assert (row["message"], row["service"], str(row["day"])) == ("disk is full", {"type": "syslog"}, "2026-11-27")
    assert row["host"] == {"name": "web-3"}


@pytest.mark.spark
@pytest.mark.slow
def test_compressed_files_of_cloudtrail_are_matched_with_rules_of_a_folder(
    engine: Engine, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    trail = tmp_path / "AWSLogs" / "o-1" / "CloudTrail" / "eu-west-1" / "2026" / "11" / "20"
    trail.mkdir(parents=True)
    with gzip.open(trail / "x.json.gz", "wb") as file:
        file.write((SAMPLES / "aws-cloudtrail-records.json").read_bytes())
    (tmp_path / "put.yml").write_text(
        "title: objects are written\nid: 7d1cf6ab-29a0-4a5c-8f5f-1b0d1fd65a10\nlevel: low\n"
        "logsource: {product: aws, service: cloudtrail}\n"
        "detection: {selection: {eventSource: s3.amazonaws.com, eventName|startswith: Put}, condition: selection}\n"
    )
    monkeypatch.setenv("CLOUDTRAIL_LOG", str(tmp_path / "AWSLogs" / "*" / "CloudTrail" / "*" / "2026" / "**" / "*.json.gz"))
    monkeypatch.setenv("RULES", str(tmp_path / "*.yml"))
    out = tmp_path / "alerts.json"
    alerts = f"{{from: alerts, type: file, path: '{out}'}}"

    ran = engine.run(ROOT / "pipelines" / "cloudtrail-alerts.yaml", "--once", "--set", f"sinks.alerts={alerts}")

    assert ran.status == 0, ran.err
    found = [json.loads(line) for line in out.read_text().splitlines()]
    titles = sorted((one["eventID"], one["rule"]["title"]) for one in found)
    assert titles == [
        ("r1", "objects are written"),
        ("r2", "console login fails"),
        ("r3", "CloudTrail is stopped or deleted"),
    ]
