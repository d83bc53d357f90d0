"""Rules that are rows of tables: from a database, over HTTP, changed while a stream runs."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import databases
import pyarrow as pa
import pytest
from databases import Database
from fake_http import FakeServer, Reply, Request
from running import Engine, wait_for
from streaming import Stream, own, streaming

from connectors.lookup_tables.database import DatabaseTable
from connectors.lookup_tables.file import FileTable
from connectors.lookup_tables.inline import InlineTable
from etl.api import TIMESTAMP, ComponentError, LookupTable
from etl.steps.detection.correlate import Correlate
from etl.steps.detection.correlate_events import CorrelateEvents
from etl.steps.detection.rules import Rules

SCHEMA = pa.schema([("process", pa.string()), ("n", pa.int64()), ("_offset", pa.int64())])
EVENTS = pa.RecordBatch.from_pydict({"process": ["sh", "bash"], "n": [1, 2], "_offset": [0, 1]}, schema=SCHEMA)


def in_tables(**rows: Any) -> Rules:
    """Return rules of inline tables: name → rows with the columns ``id`` and ``rule``."""
    tables = {name: InlineTable.model_validate({"key": "id", "rows": some}) for name, some in rows.items()}
    return Rules.model_validate({"tables": dict.fromkeys(rows, "rule")}).with_tables(tables)


def matched(step: Rules) -> list[list[str]]:
    events = step.open(SCHEMA)(EVENTS).events.to_pylist()
    return [[rule["id"] for rule in event["rules"]] for event in events]


def test_each_row_is_one_rule_or_several() -> None:
    # given
    first = [{"id": 2, "rule": own("b", "n = 2")}, {"id": 1, "rule": own("a", "n = 1")}, {"id": 3, "rule": None}]
    second = [{"id": "x", "rule": own("c", "n = 2") + "---\n" + own("d", "n < 9")}]

    # when, then
    assert matched(in_tables(first=first, second=second)) == [["a", "d"], ["b", "c", "d"]]


def test_an_error_names_a_bad_row_by_its_key(caplog: pytest.LogCaptureFixture) -> None:
    # when
    found = matched(in_tables(hunt=[{"id": "7", "rule": "name: ["}, {"id": "8", "rule": own("good", "n = 1")}]))

    # then
    assert found == [["good"]]
    assert "table hunt[7]:" in caplog.text


def test_mistakes_are_found() -> None:
    table = InlineTable.model_validate({"key": "id", "columns": {"level": "int"}, "rows": [{"id": "1", "level": 3}]})
    step = Rules.model_validate({"tables": {"hunt": "rule", "more": "level"}}).with_tables({"hunt": table, "more": table})

    assert [(one.code, one.path) for one in step.check(SCHEMA)] == [
        ("unknown-column", ("tables", "hunt")),
        ("wrong-type", ("tables", "more")),
    ]


def test_a_table_that_was_not_built_is_an_error(tmp_path: Path) -> None:
    table = InlineTable.model_validate({"key": "id", "rows": []})
    step = Rules.model_validate({"tables": {"hunt": "rule"}}).with_tables({"hunt": table}, str(tmp_path))

    with pytest.raises(ComponentError, match="table 'hunt': its rows are not there"):
        step.open(SCHEMA)


CORRELATION = """
title: Shells
correlation: {type: event_count, rules: [shell], group-by: [process], timespan: 5m, condition: {gte: 2}}
---
name: shell
where: process = 'sh'
"""


SHELL = {"name": "shell", "where": "process = 'sh'"}


def test_correlations_can_be_rows_of_tables() -> None:
    # given
    schema = SCHEMA.append(pa.field("time", TIMESTAMP))
    table = InlineTable.model_validate({"key": "id", "rows": [{"id": "1", "rule": CORRELATION}]})
    given = {"tables": {"hunt": "rule"}, "time": "time", "group_fields": ["process"]}
    step = Correlate.model_validate(given).with_tables({"hunt": table})

    # when
    force = step.correlating(schema)

    # then
    assert list(step.check(schema)) == []
    assert ([one.head.title for one in force.families.values()], force.problems) == (["Shells"], ())
    assert step.fields(schema).names[-1] == "process"
    matched = step.parts(schema)[0].open(schema)(EVENTS.append_column("time", pa.array([0, 0], TIMESTAMP))).events
    expected = {
        "head": "Shells",
        "group": "sh\x1f",
        "member": "Shells",
        "part": "",
        "order": 0,
        "rule": "shell",
        "value": None,
        "sample": None,
    }
    assert matched.column("counts").to_pylist() == [[expected]]


def test_fields_for_grouping_in_correlations_of_tables_exist() -> None:
    step = Correlate.model_validate({"tables": {"hunt": "rule"}, "time": "n", "group_fields": ["procss"]})

    assert [(one.code, one.path) for one in step.check(SCHEMA)] == [
        ("unknown-field", ("group_fields", 0)),
        ("wrong-type", ("time",)),
    ]


TIMED = SCHEMA.append(pa.field("time", TIMESTAMP))
BY_NUMBER = CORRELATION.replace("Shells", "Numbers").replace("[process]", "[process, n]").partition("---")[0]


def file_table(tmp_path: Path) -> FileTable:
    lines = [json.dumps({"id": id_, "rule": rule}) for id_, rule in (("1", CORRELATION), ("2", BY_NUMBER))]
    (tmp_path / "rules.jsonl").write_text("\n".join(lines))
    return FileTable.model_validate({"path": f"{tmp_path}/rules.jsonl", "key": "id", "columns": {"rule": "string"}})


def database_table(tmp_path: Path) -> DatabaseTable:
    with closing(sqlite3.connect(tmp_path / "rules.db", isolation_level=None)) as store:
        store.execute("create table rules (id text primary key, rule text)")
        store.executemany("insert into rules values (?, ?)", [("1", CORRELATION), ("2", BY_NUMBER)])
    return DatabaseTable.model_validate({"url": f"sqlite:///{tmp_path}/rules.db", "table": "rules", "key": "id"})


@pytest.mark.parametrize("table", [file_table, database_table])
def test_a_correlation_of_a_table_with_an_unknown_group_field_is_refused(
    table: Callable[[Path], LookupTable], tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    # given
    given = {"tables": {"hunt": "rule"}, "time": "time", "group_fields": ["process"]}
    step = Correlate.model_validate(given).with_tables({"hunt": table(tmp_path)})
    events = EVENTS.append_column("time", pa.array([0, 0], TIMESTAMP))

    # when
    matching = step.parts(TIMED)[0]
    assert isinstance(matching, CorrelateEvents)
    counted = matching.open(TIMED)(events).events.column("counts").to_pylist()

    # then
    assert [[(one["head"], one["group"]) for one in counts] for counts in counted] == [[("Shells", "sh\x1f")]]
    assert (
        "table hunt[2]:2: 'Numbers': it groups by 'n', for which alerts of this run have no field; restart the pipeline"
        in caplog.text
    )
    assert caplog.text.count("group_fields") == 1


def test_a_correlation_is_not_refused_for_fields_that_files_or_options_name() -> None:
    inline = InlineTable.model_validate({"key": "id", "rows": [{"id": "2", "rule": BY_NUMBER}]})
    given = {"tables": {"hunt": "rule"}, "time": "time", "group_fields": ["process", "n"], "rules": [SHELL]}
    step = Correlate.model_validate(given).with_tables({"hunt": inline})

    force = step.correlating(TIMED, frozenset(step.fields(TIMED).names))

    assert ([one.head.title for one in force.families.values()], force.unknown_groups) == (["Numbers"], ())


def test_modules_for_rules_of_tables_are_loaded_before_workers_are_forked() -> None:
    inline = InlineTable.model_validate({"key": "id", "rows": [{"id": "1", "rule": CORRELATION}]})
    of = Correlate.model_validate({"tables": {"hunt": "rule"}, "time": "time"}).with_tables({"hunt": inline})

    assert CorrelateEvents.opens_before_fork
    assert list(CorrelateEvents(of=of).named_tables().values()) == ["hunt"]


# ── A stream ──────────────────────────────────────────────────────────────────────────────────────

PIPELINE = """
    name: hot
    tables:
      feed: {type: http, url: "{url}/rules.yml", format: text, key: text, refresh: 2s}
      store: {type: database, url: "sqlite:///{here}/rules.db", table: rules, key: id, refresh: 2s}
    source: {type: file, path: "{here}/in.log"}
    steps:
      - {type: regex, patterns: ['^(?<n>[0-9]+) (?<process>\\S+)$']}
      - {type: rules, tables: {feed: text, store: rule}, output: annotate}
    sink: {type: file, path: "{here}/out.jsonl"}
    run: {trigger: 400ms}
"""


@dataclass
class Feed:
    """A file of a web server, with an entity tag that changes with the file."""

    text: str
    status: int = 200
    asked: list[str] = field(default_factory=list)

    def __call__(self, request: Request) -> Reply:
        tag = f'"{abs(hash(self.text))}"'
        same = self.status == 200 and request.headers.get("if-none-match") == tag
        self.asked.append(f"{request.method} {304 if same else self.status}")
        return Reply(304, headers={"ETag": tag}) if same else Reply(self.status, self.text.encode(), {"ETag": tag})


@pytest.fixture
def feed() -> Iterator[tuple[Feed, FakeServer]]:
    answer = Feed(own("feed"))
    with FakeServer(answer).running() as server:
        yield answer, server


def matches_exactly(stream: Stream, names: list[str]) -> bool:
    """Return whether a new event matches exactly these rules."""
    return stream.now()[0] == names


@pytest.mark.spark
@pytest.mark.slow
def test_rules_of_tables_change_in_a_running_stream(engine: Engine, feed: tuple[Feed, FakeServer]) -> None:
    answer, server = feed
    with closing(sqlite3.connect(engine.etl.folder / "rules.db", isolation_level=None)) as store:
        store.execute("create table rules (id text primary key, rule text)")
        store.execute("insert into rules values ('1', ?)", [own("store")])
        with streaming(engine, PIPELINE.replace("{url}", server.url)) as stream:
            assert stream.now()[0] == ["feed", "store"]
            wait_for(lambda: "GET 304" in answer.asked, what="a refresh that finds nothing new")

            # when both change
            answer.text = own("fed") + "---\n" + own("more")
            store.execute("insert into rules values ('2', ?)", [own("stored")])

            # then
            wait_for(lambda: matches_exactly(stream, ["fed", "more", "store", "stored"]), what="the new rules")

            # when what comes is bad, or nothing comes
            answer.text = "<html>Sign in</html>"
            store.execute("update rules set rule = ? where id = '1'", [own("store", "process == ")])
            store.execute("delete from rules where id = '2'")

            # then
            wait_for(lambda: matches_exactly(stream, ["fed", "more", "store"]), what="the end of a rule")
            wait_for(lambda: {"table feed", "table store[1]"} <= refused(stream), what="the word about bad rules")
            answer.status = 503
            wait_for(lambda: "the earlier version stays in use" in "".join(stream.output), what="the word about the server")
            assert matches_exactly(stream, ["fed", "more", "store"])
            rows = {f'sluice_table_rows{{pipeline="hot",table="{name}"}} 1' for name in ("feed", "store")}
            numbers = engine.etl.folder / "state" / "metrics.prom"
            wait_for(lambda: rows <= metrics(numbers, "sluice_table_"), what="the numbers of the run, written every five seconds")

    # then
    assert sorted(stream.delivered()) == list(range(stream.total()))
    assert set(answer.asked) == {"GET 200", "GET 304", "GET 503"}


@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.servers
@pytest.mark.parametrize("name", ["mariadb"])
def test_rules_of_a_real_database_change_in_a_running_stream(name: str, engine: Engine, request: pytest.FixtureRequest) -> None:
    for store in databases.of(name, request):
        store.run("CREATE TABLE {t} (id varchar(20), rule text)")
        insert(store, "1", own("first"))
        options = json.dumps({**store.options, "type": "database", "table": store.table, "key": "id", "refresh": "1s"})
        pipeline = (
            PIPELINE[: PIPELINE.index("      feed:")] + f"      store: {options}\n" + PIPELINE[PIPELINE.index("    source:") :]
        )
        with streaming(engine, pipeline.replace("feed: text, store: rule", "store: rule")) as stream:
            assert stream.now()[0] == ["first"]

            insert(store, "2", own("second"))
            wait_for(lambda stream=stream: matches_exactly(stream, ["first", "second"]), what="the new rule")

            store.run("DELETE FROM {t} WHERE id = '1'")
            wait_for(lambda stream=stream: matches_exactly(stream, ["second"]), what="the end of a rule")

        assert sorted(stream.delivered()) == list(range(stream.total()))


ALERTS = """
    name: hot
    tables:
      store: {type: database, url: "sqlite:///{here}/rules.db", table: rules, key: id, refresh: 1s}
    sources:
      log: {type: file, path: "{here}/in.log"}
    streams:
      parsed:
        from: log
        steps:
          - {type: regex, patterns: ['^(?<n>[0-9]+) (?<process>\\S+)$']}
          - {type: set, fields: {time: "timestamp_seconds(cast(n as bigint))", host: "'web'"}}
      all:
        from: parsed
        steps: [{type: rules, rules: [{name: shell, where: "process = 'sh'"}], output: annotate}]
      bursts:
        from: parsed
        steps: [{type: correlate, tables: {store: rule}, group_fields: [process], time: time}]
    sinks:
      kept: {from: all, type: file, path: "{here}/out.jsonl"}
      alerts: {from: bursts, type: file, path: "{here}/alerts.jsonl"}
    run: {trigger: 400ms}
"""


@pytest.mark.spark
@pytest.mark.slow
def test_correlations_of_a_table_change_in_a_running_stream(engine: Engine) -> None:
    def alert_titles() -> set[str]:
        out = engine.etl.folder / "alerts.jsonl"
        lines = out.read_text().splitlines(keepends=True) if out.exists() else []
        return {json.loads(line)["rule"]["title"] for line in lines if line.endswith("\n")}

    with closing(sqlite3.connect(engine.etl.folder / "rules.db", isolation_level=None)) as store:
        store.execute("create table rules (id text primary key, rule text)")
        store.execute("insert into rules values ('1', ?)", [CORRELATION])
        with streaming(engine, ALERTS) as stream:
            wait_for(lambda: alert_titles() == {"Shells"}, what="the first alert")

            # when one groups by what alerts cannot tell, and another does not
            by_host = BY_NUMBER.replace("Numbers", "Hosts").replace("process, n", "host")
            store.execute("insert into rules values ('2', ?)", [by_host])
            store.execute("insert into rules values ('3', ?)", [BY_NUMBER.replace("process, n", "process")])

            # then
            wait_for(lambda: alert_titles() == {"Shells", "Numbers"}, what="the alert of the new correlation")
            wait_for(lambda: any("'Hosts': it groups by 'host'" in line for line in stream.output), what="the message about it")

    # then
    assert alert_titles() == {"Shells", "Numbers"}
    assert sorted(stream.delivered()) == list(range(stream.total()))


def insert(store: Database, id_: str, rule: str) -> None:
    quoted = rule.replace("'", "''")
    store.run(f"INSERT INTO {{t}} VALUES ('{id_}', '{quoted}')")


def refused(stream: Stream) -> set[str]:
    """Return the tables whose changed rules were refused, by the log."""
    lines = [line for line in stream.output if "stay as they were" in line]
    return {name for name in ("table feed", "table store[1]") if any(f"{name}:" in line for line in lines)}


def metrics(file: Path, start: str) -> set[str]:
    wait_for(file.exists, what="the metrics")
    return {line for line in file.read_text().splitlines() if line.startswith(start)}
