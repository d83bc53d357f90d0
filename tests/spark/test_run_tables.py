"""Look-up tables of a run: built before it, refreshed during it, by forks of the session's zygote."""

from __future__ import annotations

import json
import os
import time
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

import pyarrow as pa
import pytest
from pyarrow import parquet
from running import Engine, wait_for

from connectors.lookup_tables.file import FileTable
from etl.api import EtlError
from etl.delivery.driver_calls import DriverCalls
from etl.spark.run_tables import _receive, _TableReporter, refreshed_tables
from etl.steps.lookup import Lookup, tables_of
from etl.tables.build_process import BuildResult, build_tables
from etl.tables.table_file import TableCounts
from etl.tables.table_store import LiveTable, TableRequest, TableVersion


def request_for(path: Path, refresh: str | None = None) -> TableRequest:
    table = FileTable.model_validate({"path": str(path), "key": "ip", "refresh": refresh})
    step = Lookup.model_validate({"table": "intel", "on": "ip", "add": {"kind": "kind"}}).with_tables({"intel": table})
    return next(iter(tables_of([step]).values()))


def kind(one: TableRequest, root: Path, key: str) -> str | None:
    mapped = LiveTable(root / one.id).newest()
    return mapped.values("kind", mapped.find([pa.array([key])]))[0].as_py()


@pytest.mark.slow
def test_a_table_whose_reading_hangs_is_given_up_and_the_next_one_is_read(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "hangs.csv")
    (tmp_path / "good.csv").write_text("ip,kind\na,x\n")
    expected, calls = [request_for(tmp_path / name) for name in ("hangs.csv", "good.csv")], DriverCalls()

    def interrupt() -> None:
        wait_for(lambda: calls.longer_than(0) != [])
        (call,) = calls.longer_than(0)
        assert call.what == "the reading of table 'intel' (file)"
        calls.interrupt(call)

    with ThreadPoolExecutor(1) as pool:
        interrupted = pool.submit(interrupt)
        hung, good = build_tables(expected, tmp_path / "tables", receive=partial(_receive, calls))
        interrupted.result()

    assert hung.error.startswith("the reading of table 'intel' (file) hung for ")
    assert (good.error, kind(expected[1], tmp_path / "tables", "a")) == ("", "x")


@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.usefixtures("spark")
def test_a_changed_table_is_used_and_a_damaged_one_is_not(tmp_path: Path) -> None:
    path, root = tmp_path / "intel.csv", tmp_path / "tables"
    path.write_text("ip,kind\na,old\n")
    one, messages = request_for(path, "100ms"), []

    with refreshed_tables({one.id: one}, root, True, lambda level, text: messages.append((level, text))):
        assert kind(one, root, "a") == "old"
        path.write_text("ip,kind\na,new\nb,too\n,none\n")
        wait_for(lambda: kind(one, root, "b") == "too")
        path.write_text("something else\n")
        wait_for(lambda: any("the earlier version stays in use" in text for _, text in messages))
        assert kind(one, root, "a") == "new"
        path.unlink()
        wait_for(lambda: any("no such file" in text for _, text in messages))
        assert kind(one, root, "a") == "new"

    assert messages[:2] == [
        ("info", "table 'intel': 1 row"),
        ("warning", f"table 'intel': 2 rows, 1 without a key that can be read left out (the first: {path}:4: ip is null)"),
    ]
    assert {path.name for path in (root / one.id).glob("*.table")} == {"000001.table", "000002.table"}


@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.usefixtures("spark")
def test_the_table_in_use_is_recorded_and_an_error_is_shown_once(tmp_path: Path) -> None:
    # given
    path, in_use, messages = tmp_path / "intel.csv", {}, []
    path.write_text("ip,kind\na,old\n")
    one = request_for(path, "50ms")

    with refreshed_tables({one.id: one}, tmp_path / "tables", True, lambda level, text: messages.append(text), in_use):
        table = in_use["intel"]
        first, built = table.version, table.built
        wait_for(lambda: (table.checked or 0) > (built or 0) + 0.05, what="another check")
        assert (table.rows, table.version, table.built, table.failed, table.error) == (1, first, built, 0, "")

        # when it vanishes
        path.unlink()
        wait_for(lambda: table.failed >= 3, what="several failures")

        # then the rows stay, and grow old
        assert (table.rows, table.version, table.built) == (1, first, built)
        assert "no such file" in table.error
        assert "age_seconds" in table.as_numbers(time.time())

        # when it comes again
        path.write_text("ip,kind\na,new\nb,new\n")
        wait_for(lambda: table.rows == 2, what="the new rows")

    assert (table.error, table.version != first) == ("", True)
    assert [text for text in messages if "no such file" in text] == [messages[1]]
    assert "table 'intel' can be read again" in messages


def test_equal_messages_of_a_table_without_versions_are_shown_once(tmp_path: Path) -> None:
    # given
    messages: list[str] = []
    reporter = _TableReporter(tmp_path, lambda level, text: messages.append(text), {})

    def read(rows: int, version: str | None = None) -> BuildResult:
        return BuildResult("t", TableVersion("000001.table", version, 0.0, TableCounts(rows, rows, 0, 0)), is_new=True)

    # when
    for answer in (read(2), read(2), read(3), BuildResult("t", error="gone"), BuildResult("t", error="gone"), read(3)):
        reporter.report(answer)
    for _ in range(2):
        reporter.report(read(3, "v"))

    # then
    assert messages == [
        "table 't': 2 rows",
        "table 't': 3 rows",
        "table 't' cannot be read, the earlier version stays in use: gone",
        "table 't' can be read again",
        "table 't': 3 rows",
        "table 't': 3 rows",
        "table 't': 3 rows",
    ]


@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.usefixtures("spark")
def test_a_table_that_was_never_read_is_an_error(tmp_path: Path) -> None:
    one = request_for(tmp_path / "none.csv")

    with (
        pytest.raises(EtlError, match=r"table 'intel': .*none\.csv: there is no such file"),
        refreshed_tables({one.id: one}, tmp_path, False, print),
    ):
        raise AssertionError("the run started")


@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.usefixtures("spark")
def test_an_earlier_version_of_a_table_is_enough(tmp_path: Path) -> None:
    path = tmp_path / "intel.csv"
    path.write_text("ip,kind\na,old\n")
    one, messages = request_for(path), []
    with refreshed_tables({one.id: one}, tmp_path, False, lambda level, text: None):
        path.unlink()

    with refreshed_tables({one.id: one}, tmp_path, False, lambda level, text: messages.append(level)):
        assert kind(one, tmp_path, "a") == "old"

    assert messages == ["warning"]


@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.usefixtures("spark")
def test_an_earlier_version_that_cannot_be_used_is_not_enough(tmp_path: Path) -> None:
    path = tmp_path / "intel.csv"
    path.write_text("ip,kind\na,old\n")
    one = request_for(path)
    with refreshed_tables({one.id: one}, tmp_path, False, lambda level, text: None):
        path.unlink()
    (file,) = (tmp_path / one.id).glob("*.table")
    file.write_bytes(file.read_bytes().replace(b"sluice-table ", b"sluice-table 9", 1))

    with (
        pytest.raises(EtlError, match=r"table 'intel': .*intel\.csv: there is no such file"),
        refreshed_tables({one.id: one}, tmp_path, False, print),
    ):
        raise AssertionError("the run started")


@pytest.mark.spark
@pytest.mark.slow
def test_a_run_looks_up_values(engine: Engine) -> None:
    here = engine.etl.folder
    (here / "intel.csv").write_text("ip,kind\n192.0.2.7,scan\n")
    (here / "in.log").write_text("192.0.2.7 a\n10.0.0.1 b\n")
    path = engine.etl.pipeline("""
        name: look
        tables:
          intel: {type: file, path: "{here}/intel.csv", key: ip}
        source: {type: file, path: "{here}/in.log"}
        steps:
          - {type: regex, patterns: ['^(?<ip>\\S+) (?<text>.*)$']}
          - {type: lookup, table: intel, on: ip, add: {threat.kind: kind}, miss: dead_letter}
        sink: {type: file, path: "{here}/out.jsonl"}
    """)

    ran = engine.run(path, "--once")

    assert ran.status == 0, ran.err
    assert json.loads((here / "out.jsonl").read_text()) == {
        "ip": "192.0.2.7",
        "text": "a",
        "threat": {"kind": "scan"},
    }
    assert json.loads((here / "state" / "dead_letters.jsonl").read_text())["reason"] == "table 'intel' has no row for 10.0.0.1"
    assert "table 'intel': 1 row" in ran.err


@pytest.mark.spark
@pytest.mark.slow
def test_a_run_looks_up_with_each_kind_of_match(engine: Engine) -> None:
    # given
    here = engine.etl.folder
    (here / "users.csv").write_text("user,host,role\na,x,admin\na,x,dev\n,x,none\n")
    (here / "nets.jsonl").write_text('{"net":"10.0.0.0/8","zone":"corp"}\nbroken\n{"net":"10.1.0.0/16","zone":"dmz"}\n')
    ports = {"lo": pa.array([0, 1024]), "hi": pa.array([1023, 65535]), "kind": ["system", "user"]}
    parquet.write_table(pa.table(ports), here / "ports.parquet")
    (here / "in.jsonl").write_text(
        '{"user":"a","host":"x","ip":"10.1.0.1","port":80}\n{"user":"b","host":"x","ip":"bad","port":-1}\n{"user":null}\n'
    )
    path = engine.etl.pipeline("""
        name: ways
        tables:
          users: {type: file, path: "{here}/users.csv", key: [user, host]}
          nets: {type: file, path: "{here}/nets.jsonl", key: net}
          ports: {type: file, path: "{here}/ports.parquet", key: [lo, hi], columns: {lo: bigint, hi: bigint}}
        source: {type: file, path: "{here}/in.jsonl"}
        steps:
          - {type: json, fields: {user: string, host: string, ip: string, port: bigint}}
          - {type: lookup, table: ports, on: port, match: range, add: {kind: kind}, defaults: {kind: unknown}}
          - {type: lookup, table: users, on: [user, host], add: {roles: role}, several: list}
          - {type: lookup, table: users, on: [user, host], add: {role: role}, several: all}
          - {type: lookup, table: nets, on: ip, match: cidr, add: {zone: zone}, miss: drop}
        sink: {type: file, path: "{here}/out.jsonl"}
    """)

    # when
    ran = engine.run(path, "--once")

    # then
    assert ran.status == 0, ran.err
    event = {"user": "a", "host": "x", "ip": "10.1.0.1", "port": 80, "kind": "system", "roles": ["admin", "dev"], "zone": "dmz"}
    events = [json.loads(line) for line in (here / "out.jsonl").read_text().splitlines()]
    assert events == [{**event, "role": "admin"}, {**event, "role": "dev"}]
    assert "steps[1] lookup: 1 of 3 events found in table 'ports', 2 rows" in ran.err
    assert "steps[4] lookup: 2 of 4 events found in table 'nets', 2 rows" in ran.err
    assert f"table 'nets': {here}/nets.jsonl: 1 line is not JSON and is skipped: the first, line 2, begins 'broken'" in ran.err
