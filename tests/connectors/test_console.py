"""The console sink: output on terminals and in pipes."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
import unicodedata
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from connectors.console import table as console_table
from connectors.console.sink import ConsoleSink
from connectors.console.table import ConsoleTable
from connectors.discard import DiscardSink
from etl.api import TIMESTAMP, BatchId, ComponentError, Staged, Task, visible

EVENTS = pa.record_batch(
    {
        "timestamp": pa.array([0, None], TIMESTAMP),
        "n": [1, 22222],
        "source.ip": ["::1", "\x1b[31mred\x1b[0m\n\u202ebidi\x9b2J"],
        "tags": [["x"], None],
        "_offset": [1, 2],
    }
)


def staged(folder: Path, sink: ConsoleSink, *batches: pa.RecordBatch, split: str = "x") -> list[Staged]:
    writer: Any = sink.open(Task("p", "s", split, str(folder), visible(batches[0].schema)))
    for batch in batches:
        writer.write(batch)
    return [writer.close()]


def printed(folder: Path, sink: ConsoleSink, *batches: pa.RecordBatch) -> None:
    committer: Any = sink.committer(str(folder))
    committer.commit(BatchId("q", 0), staged(folder, sink, *batches))


UNSAFE = {"Cc", "Cf", "Zl", "Zp"}


class Terminal(io.TextIOWrapper):
    """A standard output that says it is a terminal."""

    def isatty(self) -> bool:
        return True


def test_json_by_default_in_a_pipe(tmp_path: Path, capsysbinary: pytest.CaptureFixture[bytes]) -> None:
    printed(tmp_path, ConsoleSink(), EVENTS, EVENTS)

    lines = capsysbinary.readouterr().out.splitlines()
    assert len(lines) == 4
    assert json.loads(lines[1])["source"] == {"ip": "\x1b[31mred\x1b[0m\n\u202ebidi\x9b2J"}
    assert b"_offset" not in lines[0]


def test_a_table_by_default_on_a_terminal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    output = Terminal(io.BytesIO(), encoding="utf-8")
    monkeypatch.setattr(sys, "stdout", output)

    printed(tmp_path, ConsoleSink(), EVENTS)

    output.seek(0)
    assert output.read().splitlines() == [
        "timestamp                        n  source.ip                             tags",
        "───────────────────────────  ─────  ────────────────────────────────────  ─────",
        '1970-01-01T00:00:00.000000Z      1  ::1                                   ["x"]',
        "                             22222  \\x1b[31mred\\x1b[0m\\n\\u202ebidi\\x9b2J",
    ]


@pytest.mark.parametrize("format_", ["table", "json"])
def test_no_event_can_control_the_terminal(tmp_path: Path, format_: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    output = Terminal(io.BytesIO(), encoding="utf-8")
    monkeypatch.setattr(sys, "stdout", output)
    everything = "".join(map(chr, [*range(0x100), 0x2028, 0x2029, *range(0x202A, 0x202F), *range(0x2066, 0x206A), 0xFEFF]))

    printed(tmp_path, ConsoleSink(format=format_), pa.record_batch({"a\x1b[2J": [everything]}))

    output.seek(0)
    text = output.read().replace("\n", "")
    assert not [character for character in text if unicodedata.category(character) in UNSAFE and character != "\xad"]
    if format_ == "json":
        assert json.loads(text) == {"a\x1b[2J": everything}


def test_the_header_is_repeated_only_when_columns_change(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    sink = ConsoleSink(format="table")
    committer: Any = sink.committer(str(tmp_path))

    for number, name in enumerate(["a", "a", "b"]):
        committer.commit(BatchId("q", number), staged(tmp_path, sink, pa.record_batch({name: ["x"]})))

    assert capsys.readouterr().out.split() == ["a", "─", "x", "x", "b", "─", "x"]


def test_a_micro_batch_is_printed_once_a_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    sink = ConsoleSink(format="json")
    committer: Any = sink.committer(str(tmp_path))
    output = staged(tmp_path, sink, pa.record_batch({"a": [1]}))

    committer.commit(BatchId("q", 0), output)
    committer.commit(BatchId("q", 0), output)
    committer.commit(BatchId("other", 0), output)

    assert capsys.readouterr().out == '{"a":1}\n{"a":1}\n'


def test_long_values_are_truncated_to_the_width(tmp_path: Path) -> None:
    batch = pa.record_batch({"n": [1, 2, 3], "ascii": ["x" * 500, "y", ""], "wide": ["日本" * 99, "é" * 99, "e\u0301" * 9]})

    lines = list(ConsoleTable(60).lines(batch))

    assert [console_table.display_width(line) <= 60 for line in lines] == [True] * 5
    assert lines[2].count("…") == 2
    assert "日本日本" in lines[2]


def test_columns_stay_readable_when_there_are_too_many() -> None:
    batch = pa.record_batch({f"column-{n}": ["some longer text"] for n in range(30)})

    header = next(iter(ConsoleTable(80).lines(batch)))

    assert len(header.split()) == 30


def test_events_without_fields_are_lines_too() -> None:
    assert list(ConsoleTable(80).lines(pa.record_batch({"_offset": [1, 2]})))[-2:] == ["", ""]


@pytest.mark.slow
def test_a_closed_pipe_ends_the_run_with_a_message(tmp_path: Path) -> None:
    program = f"""
import sys
from pathlib import Path
import pyarrow as pa
from test_console import ConsoleSink, ComponentError, printed
try:
    printed(Path({str(tmp_path)!r}), ConsoleSink(format="json"), pa.record_batch({{"a": list(range(100000))}}))
except ComponentError as error:
    print(error, file=sys.stderr)
"""
    reader, writer = os.pipe()
    line, environment = [sys.executable, "-c", program], {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    with subprocess.Popen(line, stdout=writer, stderr=subprocess.PIPE, text=True, env=environment) as process:
        os.close(writer)
        assert os.read(reader, 8) == b'{"a":0}\n'
        os.close(reader)
        assert process.stderr
        message = process.stderr.read()

    assert message == "standard output was closed by its reader: no more events are printed\n"
    assert process.returncode == 0


def test_a_full_disk_at_staging_is_a_clear_error(tmp_path: Path) -> None:
    with pytest.raises(ComponentError, match=r"cannot stage .*gone"):
        staged(tmp_path / "gone", ConsoleSink(), EVENTS)


def test_abort_removes_what_was_staged(tmp_path: Path) -> None:
    writer: Any = ConsoleSink().open(Task("p", "s", "x", str(tmp_path), visible(EVENTS.schema)))
    writer.write(EVENTS)

    writer.abort()

    assert os.listdir(tmp_path) == []


def test_discard_accepts_everything(tmp_path: Path) -> None:
    sink = DiscardSink()
    writer: Any = sink.open(Task("p", "s", "x", str(tmp_path), visible(EVENTS.schema)))

    result = writer.write(EVENTS)

    assert (result.retryable, list(result.rejected), writer.close(), sink.committer(str(tmp_path))) == (None, [], None, None)
