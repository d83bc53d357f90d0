"""Dead letters after a run: which there are, which are settled, and where they enter their pipeline again."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest
from running import Etl

from etl.api import TIMESTAMP, EtlError, Limit, Rejects
from etl.cli.dead.letters import LocalLetters
from etl.config.loader import load
from etl.config.model import Pipeline
from etl.running.dead_letters import replay_run
from etl.running.dead_letters.entry_points import NoEntryError, entry_point
from etl.running.dead_letters.letter_files import LetterFile
from etl.running.dead_letters.letter_groups import MAX_REASONS, group_letters
from etl.running.dead_letters.replay import ReplayPart, count_open_letters
from etl.running.dead_letters.replay_run import Replay
from etl.running.dead_letters.replayed_events import UNREADABLE, LetterWriter, ReplaySource
from etl.running.dead_letters.settled_letters import SettledLetters, to_record
from etl.spark.state.folder import StateFolder
from etl.spark.state.json_files import write_json

PIPELINE = """
    name: shop
    sources:
      web: {type: file, path: "{here}/web.log"}
      app: {type: file, path: "{here}/app.log"}
    streams:
      visits:
        from: web
        steps:
          - {type: regex, patterns: ['^(?<user>[a-z]+) (?<took>[0-9]+)$']}
          - {type: convert, fields: {took: int}}
      calls: {from: app, steps: [{type: json, fields: {user: string, ok: boolean}}]}
      all: {from: [visits, calls], steps: [{type: set, fields: {name: "upper(user)"}}]}
      counts:
        from: all
        steps:
          - {type: set, fields: {at: "current_timestamp()"}}
          - {type: window, time: at, size: 1m, group_by: [name], aggregates: {n: count(*)}}
    sinks:
      archive: {from: all, type: file, path: "{here}/all.jsonl"}
      visits: {from: visits, type: file, path: "{here}/visits.jsonl"}
      counts: {from: counts, type: file, path: "{here}/counts.jsonl"}
"""


@pytest.fixture
def shop(tmp_path: Path) -> Pipeline:
    return load(Etl(tmp_path).pipeline(PIPELINE))


def letter(event: str, at: str = "visits[0] regex", **fields: Any) -> dict[str, Any]:
    common = {"time": "2026-01-02T03:04:05.000000Z", "pipeline": "shop", "at": at, "code": "no-match", "reason": "does not match"}
    return {**common, "source": "web", "partition": "web.log#1", "offset": 7, "event": event, **fields}


def lines(*letters: dict[str, Any]) -> bytes:
    return b"".join(json.dumps(one).encode() + b"\n" for one in letters)


@pytest.mark.parametrize("name", ["dead.jsonl", "dead.json.gz"])
def test_letters_of_a_file_have_their_fields_and_lines(tmp_path: Path, name: str) -> None:
    content = lines(letter("a\nb"), letter("c", offset=None)) + b'{"time": "2026-01'
    path = tmp_path / name
    path.write_bytes(gzip.compress(content) if name.endswith("gz") else content)

    (batch,) = LetterFile(name, path).batches()

    assert batch.column("event").to_pylist() == ["a\nb", "c"]
    assert batch.column("offset").to_pylist() == [7, None]
    assert batch.column("time")[0].as_py().isoformat() == "2026-01-02T03:04:05+00:00"
    assert batch.column("line").to_pylist() == [0, 1]


def test_other_content_than_letters_is_an_error(tmp_path: Path) -> None:
    path = tmp_path / "dead.jsonl"
    path.write_text("no letter\n")

    with pytest.raises(EtlError, match="lines that are not dead letters"):
        list(LetterFile("dead.jsonl", path).batches())


def test_dropped_letters_are_settled_until_the_file_is_another_one(tmp_path: Path) -> None:
    path = tmp_path / "dead.jsonl"
    path.write_bytes(lines(*(letter(text) for text in "abcde")))
    file = LetterFile("dead.jsonl", path)

    def texts() -> list[str]:
        settled = SettledLetters.load(tmp_path / "dead")
        return [text for batch in settled.open(file) for text in batch.column("event").to_pylist()]

    SettledLetters.load(tmp_path / "dead").drop([file], {"dead.jsonl": [1, 2]})
    SettledLetters.load(tmp_path / "dead").drop([file], {"dead.jsonl": [4]})
    assert texts() == ["a", "d"]

    path.write_bytes(lines(letter("x"), letter("y"), letter("z")))
    assert texts() == ["x", "y", "z"]


def test_letters_of_two_files_of_one_name_are_settled_apart(tmp_path: Path) -> None:
    dead, path = tmp_path / "dead", tmp_path / "dead.jsonl"
    file = LetterFile("dead.jsonl", path)
    path.write_bytes(lines(letter("a")))
    (dead / "replays" / "0001").mkdir(parents=True)
    write_json(dead / "replays" / "0001" / "taken.json", to_record([file], {"dead.jsonl": [0]}))
    path.write_bytes(lines(letter("b"), letter("c")))

    SettledLetters.load(dead).drop([file], {"dead.jsonl": [0, 1]})

    assert SettledLetters.load(dead).count(file) == 2


def test_a_replay_that_was_killed_before_it_began_has_taken_nothing(tmp_path: Path) -> None:
    path = tmp_path / "dead.jsonl"
    path.write_bytes(lines(letter("a")))
    file = LetterFile("dead.jsonl", path)
    (tmp_path / "dead" / "replays" / "0001.new").mkdir(parents=True)
    write_json(tmp_path / "dead" / "replays" / "0001.new" / "taken.json", to_record([file], {"dead.jsonl": [0]}))

    assert SettledLetters.load(tmp_path / "dead").count(file) == 0


def describe_entry(shop: Pipeline, at: str) -> tuple[list[str], list[str], dict[str, list[str]], tuple[str, ...]]:
    entry = entry_point(shop, at)
    streams = [f"{one.name}[{one.first_step}:]" for one in entry.streams.values()]
    return entry.fields.names, streams, {name: list(one.inputs) for name, one in entry.sinks.items()}, entry.left_out


def test_letters_of_a_step_reach_what_is_behind_it_and_no_state(shop: Pipeline) -> None:
    fields, streams, sinks, left_out = describe_entry(shop, "visits[1] convert")

    assert fields == ["user", "took"]
    assert streams == ["visits[1:]", "all[0:]"]
    assert sinks == {"archive": ["all"], "visits": ["visits"]}
    assert left_out == ("counts[1] window",)


def test_a_union_keeps_the_fields_of_inputs_that_letters_do_not_come_from(shop: Pipeline) -> None:
    part = entry_point(shop, "visits[1] convert").pipeline(shop, "replay-0001-1", "")

    assert part.sources.keys() == {"replay-0001-1", "replay-0001-1-calls"}
    assert "ok" in part.sources["replay-0001-1-calls"].fields().names
    assert part.streams["all"].inputs == ("visits", "replay-0001-1-calls")


def test_letters_of_a_sink_reach_it_alone(shop: Pipeline) -> None:
    fields, streams, sinks, _ = describe_entry(shop, "sink archive")

    assert {"name", "ok"} <= set(fields)
    assert (streams, list(sinks)) == ([], ["archive"])


def test_a_step_that_has_moved_is_found_by_its_type(shop: Pipeline) -> None:
    assert describe_entry(shop, "visits[0] convert")[1] == ["visits[1:]", "all[0:]"]


@pytest.mark.parametrize(
    ("at", "reason"),
    [
        ("visits[0] grok", "no grok in 'visits'"),
        ("old[0] grok", "no stream 'old'"),
        ("sink old", "no sink old"),
        ("counts[1] window", "keeps state"),
        ("counts[0] set", r"only counts\[1\] window would get its events"),
    ],
)
def test_letters_without_a_way_say_why(shop: Pipeline, at: str, reason: str) -> None:
    with pytest.raises(NoEntryError, match=reason):
        entry_point(shop, at)


def test_rows_that_a_step_makes_are_not_made_again(tmp_path: Path) -> None:
    shop = load(
        Etl(tmp_path).pipeline("""
            name: rows
            source: {type: file, path: "{here}/web.log"}
            steps:
              - {type: sql, query: "SELECT 1 / size(split(message, ',')) AS n FROM events"}
              - {type: sql, query: "SELECT explode(array(n, n)) AS n FROM events"}
            sink: {type: console}
        """)
    )

    assert describe_entry(shop, "steps[0] sql")[1] == ["steps[0:]"]
    with pytest.raises(NoEntryError, match="makes several rows"):
        entry_point(shop, "steps[1] sql")


def test_events_of_letters_have_the_types_of_the_step(tmp_path: Path) -> None:
    schema = pa.schema(
        [("user.name", pa.string()), ("at", pa.timestamp("us", "UTC")), ("data", pa.binary()), ("tags", pa.list_(pa.int64()))]
    )
    hostile = ['{"a":' + "[" * 100_000, '{"tags":[99999999999999999999999]}', '{"data":"no base64"}']
    events = [*hostile, '{"user":{"name":"a"},"at":"2026-01-02T03:04:05Z","data":"/w==","tags":[1]}', '{"at":"no time"}', "{}"]
    path = tmp_path / "letters.arrow"
    writer = LetterWriter(path)
    writer.write(pa.record_batch({"event": events}))
    writer.close()
    source = ReplaySource(columns=schema, name="replay-0001-1", path=str(path))

    (split,) = source.splits(source.start(), source.latest(source.start(), Limit(1 << 30)), 1)
    deep, large, no_bytes, good, bad, empty = source.read(split)

    assert all(isinstance(one, Rejects) and one.code == UNREADABLE for one in (deep, large, no_bytes))

    assert isinstance(good, pa.RecordBatch)
    assert good.to_pylist()[0] | {"at": None} == {"user.name": "a", "at": None, "data": b"\xff", "tags": [1], "_offset": 3}
    assert isinstance(bad, Rejects)
    assert (bad.code, bad.events.column("message").to_pylist()) == (UNREADABLE, ['{"at":"no time"}'])
    assert isinstance(empty, pa.RecordBatch)
    assert empty.column("_offset").to_pylist() == [5]


def test_two_replays_at_the_same_time_send_each_letter_once(
    shop: Pipeline, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    state = StateFolder(tmp_path / "state")
    state.dead_letters.parent.mkdir(parents=True)
    state.dead_letters.write_bytes(lines(letter("anna 3")))
    started: list[str] = []

    def service_of(portion: ReplayPart, *_: Any) -> Any:
        started.append(portion.name)
        return SimpleNamespace(runs=[SimpleNamespace(stopped=False, totals=SimpleNamespace(sinks={}))])

    def run_second(_: Any) -> None:
        with pytest.raises(EtlError, match="another replay of this pipeline is going on"):
            second.run(None, lambda _: None, lambda _: None)  # type: ignore[arg-type]

    monkeypatch.setattr(replay_run, "service_of", service_of)
    first = Replay.begin(shop, state, lambda batch: batch, "")
    second = Replay.begin(shop, state, lambda batch: batch, "")
    assert (first.taken.letters, second.taken.letters, second.unfinished) == (1, 0, 1)
    letters = LocalLetters(shop, state, [], lambda batch: batch)
    assert (letters.groups(), "a replay of 1 letter did not end" in capsys.readouterr().err) == ([], True)
    assert first.run(None, run_second, lambda _: None)  # type: ignore[arg-type]
    assert second.run(None, lambda _: None, lambda _: None)  # type: ignore[arg-type]
    assert (letters.groups(), capsys.readouterr().err) == ([], "")

    assert started == ["replay-0001-1"]


def test_reasons_that_name_values_do_not_fill_the_memory() -> None:
    same, times = pa.repeat("x", 1000), pa.array([0] * 1000, TIMESTAMP)
    columns = {"at": same, "code": same, "time": times, "event": same}
    reasons = ([f"{batch}.{row}" if row % 2 else "no match" for row in range(1000)] for batch in range(9))

    (group,) = group_letters(pa.record_batch({**columns, "reason": one}) for one in reasons)

    assert group.events == 9000
    assert len(group.reasons) <= 2 * MAX_REASONS
    assert (group.reason, group.reasons["no match"]) == ("no match", 4500)


def test_letters_of_replays_that_have_not_ended_are_counted(tmp_path: Path) -> None:
    replays = tmp_path / "dead" / "replays"
    for name in ("0001", "0002", "0003", "0004.new"):
        (replays / name).mkdir(parents=True)
    for name in ("0001", "0002", "0004.new"):
        number = name.partition(".")[0]
        write_json(replays / name / "portions.json", [{"name": f"replay-{number}-1", "at": "main", "letters": 3}])
    (replays / "0001" / "replay-0001-1.ended").touch()

    assert count_open_letters(StateFolder(tmp_path)) == 3
