"""The option ``multiline``: events equal those of a simple reference, however the file is divided and read."""

from __future__ import annotations

import gzip
import json
import os
import pickle
import re
import shutil
import signal
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from running import Engine, Etl, wait_for

from connectors.file.reading import file_samples, file_scan, file_warnings, split_planner
from connectors.file.source import FileSource
from connectors.shared.lines import event_boundaries, line_cutter, newlines
from connectors.shared.lines.multiline import Multiline
from connectors.shared.lines.multiline_presets import PRESETS, Name
from connectors.stdin import source as stdin_source
from connectors.stdin.source import StdinSource
from etl.api import OFFSET, Limit, Offset, Rejects

Events = list[tuple[int, str]]
"""Offsets and texts; dead letters as texts that begin with '!'."""

OLD = 1_000_000_000

BEGINS: dict[str, Callable[[str, str, re.Pattern[str]], bool]] = {
    "start": lambda before, this, pattern: bool(pattern.search(this)),
    "continue": lambda before, this, pattern: not pattern.search(this),
    "end": lambda before, this, pattern: bool(pattern.search(before)),
}


def reference(data: bytes, way: str, pattern: str, max_lines: int, max_bytes: int, max_line: int = 1 << 20) -> Events:
    """Group lines one by one, as a reference."""
    compiled = re.compile(pattern)
    found: Events = []
    event: list[str] = []
    begin = at = 0
    before: str | None = None
    pieces = data.split(b"\n")
    for number, raw in enumerate(pieces):
        if number == len(pieces) - 1 and not raw:
            break
        text = raw.removesuffix(b"\r").decode("utf-8", "replace")
        if at == 0:
            text = text.removeprefix("\ufeff")
        long = len(raw) > max_line
        begins = before is None or long or BEGINS[way](before, text, compiled)
        if begins or len(event) == max_lines or at + len(raw) - begin > max_bytes:
            if event:
                found.append((begin, "\n".join(event)))
            event, begin = [], at
        if long:
            found.append((at, "!" + text[:1]))
        else:
            event.append(text)
        before = None if long else text
        at += len(raw) + 1
    if event:
        found.append((begin, "\n".join(event)))
    return found


class Run:
    """A query over one file, whose offset goes through JSON as in a restart at every batch."""

    def __init__(self, path: Path, parallelism: int = 2, **options: Any) -> None:
        self.source = FileSource(path=str(path), **options)
        self.parallelism = parallelism
        self.offset: Offset = json.loads(json.dumps(self.source.start()))

    def next(self, **limit: Any) -> Events:
        """Plan a micro-batch, and read it twice."""
        file_samples._match_cache.clear()
        source: FileSource = pickle.loads(pickle.dumps(self.source))
        end = json.loads(json.dumps(source.latest(self.offset, Limit(**{"max_bytes": 1 << 40, **limit}))))
        splits = source.splits(self.offset, end, self.parallelism)
        assert splits == source.splits(self.offset, end, self.parallelism)
        found, again = ([event for split in splits for event in read(source, split)] for _ in range(2))
        assert found == again
        self.offset = end
        return found


def read(source: Any, split: Any) -> Events:
    found: Events = []
    for batch in source.read(split):
        mark = "!" if isinstance(batch, Rejects) else ""
        events = batch.events if isinstance(batch, Rejects) else batch
        events.validate(full=True)
        texts = (mark + text for text in events.column("message").to_pylist())
        found += zip(events.column(OFFSET).to_pylist(), texts, strict=True)
    return sorted(found)


@pytest.fixture(autouse=True)
def fresh_caches() -> None:
    """Clear the caches, so that each test begins like a new process."""
    file_samples._match_cache.clear()
    file_scan._without_newline.clear()
    file_warnings._warned.clear()


@pytest.fixture
def log(tmp_path: Path) -> Path:
    return tmp_path / "x.log"


def once(path: Path, **multiline: Any) -> list[str]:
    """Return the texts of all events of a file."""
    return [text for _, text in Run(path, multiline=multiline).next(bounded=True)]


pieces = st.sampled_from(
    [b"S", b"S1", b"c", b" c2", b"", b"\xc3\xa9", b"\xff", b"E", b"xE\r", b"S\r", b"long" * 9, b"\xef\xbb\xbfS"]
)
texts = st.lists(pieces, max_size=60).map(b"\n".join)
steps = st.lists(
    st.one_of(
        st.tuples(st.just("append"), st.integers(1, 80)),
        st.tuples(st.just("bytes"), st.sampled_from([1, 5, 20, 1 << 40])),
        st.tuples(st.just("events"), st.integers(0, 5)),
    ),
    max_size=12,
)


@pytest.mark.slow
@settings(deadline=None, max_examples=300)
@given(
    texts,
    steps,
    st.sampled_from([("start", "^S"), ("continue", "^( |c|$)"), ("end", "E$")]),
    st.sampled_from([(500, 1 << 20), (3, 1 << 20), (1, 1 << 20), (500, 6), (4, 9)]),
    st.sampled_from([20, 1 << 20]),
    st.integers(1, 4),
    st.sampled_from([4, 16, 64, 4096]),
)
def test_events_equal_those_of_the_whole_file(
    data: bytes,
    doings: list[tuple[str, int]],
    way: tuple[str, str],
    limits: tuple[int, int],
    longest: int,
    parallelism: int,
    block: int,
) -> None:
    name, pattern = way
    multiline = {name: pattern, "max_lines": limits[0], "max_bytes": limits[1], "timeout": "1d"}
    with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        for module, size in (
            (line_cutter, "BLOCK_BYTES"),
            (event_boundaries, "FIRST_SEARCH_BYTES"),
            (newlines, "_FIRST_READ_BYTES"),
            (newlines, "_READ_BYTES"),
            (split_planner, "MIN_SPLIT_BYTES"),
        ):
            patch.setattr(module, size, block)
        patch.setattr(line_cutter, "REJECT_SAMPLE_BYTES", 1)
        path = Path(folder) / "x.log"
        run = Run(path, parallelism, multiline=multiline, max_line_bytes=longest)
        found, at = [], 0
        for doing, size in doings:
            if doing == "append":
                with path.open("ab") as file:
                    file.write(data[at : at + size])
                at += size
            else:
                found += run.next(**{f"max_{doing}": size, "max_bytes": size if doing == "bytes" else 1 << 40})
        with path.open("ab") as file:
            file.write(data[at:])
        found += run.next(bounded=True)

        assert found == reference(data, name, pattern, *limits, longest)


# ── Presets ───────────────────────────────────────────────────────────────────────────────────────

TRACES: dict[str, list[str]] = {
    "java": [
        "2026-01-02 10:00:00 INFO  c.e.Shop started",
        "2026-01-02 10:00:01 ERROR c.e.Shop order 7 failed\n"
        "java.lang.IllegalStateException: no stock\n"
        "\tat com.example.Shop.take(Shop.java:42)\n"
        "\tat com.example.Shop.access$000(Shop.java:9) ~[shop.jar:1.0]\n"
        "\tat java.base/java.lang.Thread.run(Thread.java:1583)\n"
        "\tSuppressed: java.io.IOException: close\n"
        "\t\tat com.example.Shop.close(Shop.java:50)\n"
        "\t\t... 3 more\n"
        "Caused by: com.example.StockException$Empty: shelf 3\n"
        "\tat com.example.Shelf.get(Shelf.java:7)\n"
        "\t... 23 more\n"
        "Caused by: java.lang.NullPointerException\n"
        "\t... 25 common frames omitted",
        "2026-01-02 10:00:02 INFO  c.e.Shop java.lang.String is a class",
        'Exception in thread "main" java.lang.OutOfMemoryError: Java heap space\n\tat Main.main(Main.java:3)',
        "com.example.Shop: not an exception",
    ],
    "python": [
        "INFO:root:before",
        "ERROR:shop:order 7 failed\n"
        "Traceback (most recent call last):\n"
        '  File "/srv/shop.py", line 3, in take\n'
        "    return shelf[key]\n"
        "           ~~~~~^^^^^\n"
        "KeyError: 'x'\n"
        "\n"
        "During handling of the above exception, another exception occurred:\n"
        "\n"
        "Traceback (most recent call last):\n"
        '  File "/srv/shop.py", line 5, in <module>\n'
        "    take()\n"
        "requests.exceptions.Timeout: no answer",
        "INFO:root:after",
        "ERROR:root:stopped\n"
        "Traceback (most recent call last):\n"
        '  File "x.py", line 1, in <module>\n'
        "    input()\n"
        "KeyboardInterrupt",
        "ValueError: a line of its own",
        "WARNING:root:a list\n  one\n  two",
        "INFO:root:last",
    ],
    "go": [
        "2026/01/02 10:00:00 listening on :80",
        "panic: runtime error: invalid memory address or nil pointer dereference [recovered]\n"
        "\tpanic: again\n"
        "[signal SIGSEGV: segmentation violation code=0x1 addr=0x0 pc=0x48a2b1]\n"
        "\n"
        "goroutine 1 [running]:\n"
        "main.(*Shop).Take(0x0, {0x4b2f3a, 0x3})\n"
        "\t/srv/shop.go:12 +0x1d\n"
        "main.main()\n"
        "\t/srv/main.go:7 +0x25\n"
        "\n"
        "goroutine 18 [chan receive, 2 minutes]:\n"
        "github.com/acme/pool.work(0xc000012345)\n"
        "\t/go/pkg/mod/github.com/acme/pool@v1.2.3/pool.go:31 +0x44\n"
        "created by github.com/acme/pool.New in goroutine 1\n"
        "\t/go/pkg/mod/github.com/acme/pool@v1.2.3/pool.go:20 +0x99\n"
        "exit status 2",
        "2026/01/02 10:00:09 http: panic serving 127.0.0.1:1234: boom\n"
        "goroutine 7 [running]:\n"
        "net/http.(*conn).serve.func1()\n"
        "\t/usr/local/go/src/net/http/server.go:1854 +0xbf\n"
        "panic({0x5f3a80?, 0x6b5b40?})\n"
        "\t/usr/local/go/src/runtime/panic.go:890 +0x263",
        "2026/01/02 10:00:10 done",
    ],
    "ruby": [
        "I, [2026-01-02T10:00:00.1 #7]  INFO -- : start",
        "shop.rb:3:in `take': no stock (RuntimeError)\n\tfrom shop.rb:9:in `block in sell'\n\tfrom shop.rb:12:in `<main>'\n"
        "shop.rb:2:in 'Integer': invalid value for Integer(): \"x\" (ArgumentError)\n\tfrom shop.rb:2:in 'Shop#take'",
        "E, [2026-01-02T10:00:01.1 #7] ERROR -- : no stock (RuntimeError)\n"
        "/srv/app/shop.rb:3:in `take'\n"
        "/usr/lib/ruby/gems/3.1.0/gems/rack-2.2.4/lib/rack.rb:12:in `block (2 levels) in call'",
        "I, [2026-01-02T10:00:02.1 #7]  INFO -- : end",
    ],
    "php": [
        "[02-Jan-2026 10:00:00 UTC] PHP Notice:  Undefined variable $a in /srv/a.php on line 2",
        "[02-Jan-2026 10:00:01 UTC] PHP Fatal error:  Uncaught RuntimeException: first in /srv/a.php:3\n"
        "Stack trace:\n"
        "#0 /srv/a.php(7): take('x')\n"
        "#1 {main}\n"
        "\n"
        "Next LogicException: second in /srv/a.php:9\n"
        "Stack trace:\n"
        "#0 {main}\n"
        "  thrown in /srv/a.php on line 9",
        "[02-Jan-2026 10:00:02 UTC] PHP Warning:  oops in /srv/a.php on line 4\n"
        "[02-Jan-2026 10:00:02 UTC] PHP Stack trace:\n"
        "[02-Jan-2026 10:00:02 UTC] PHP   1. {main}() /srv/a.php:0",
        '[2026-01-02 10:00:03] local.ERROR: boom {"exception":"[object] (Exception(code: 0): boom at /srv/a.php:3)\n'
        "[stacktrace]\n"
        "#0 /srv/a.php(7): take()\n"
        "#1 {main}\n"
        '"} ',
        "[02-Jan-2026 10:00:04 UTC] PHP Notice:  last",
    ],
}


@pytest.mark.parametrize("preset", TRACES)
def test_preset_keeps_a_stack_trace_whole(log: Path, preset: str) -> None:
    log.write_text("\n".join(TRACES[preset]) + "\n")

    assert once(log, preset=preset) == TRACES[preset]


def test_cri_parts_become_one_line(log: Path) -> None:
    log.write_text(
        "2026-01-02T10:00:00.1Z stdout F whole\n"
        "2026-01-02T10:00:00.2Z stdout P part one, \n"
        "2026-01-02T10:00:00.3Z stdout P part two, \n"
        "2026-01-02T10:00:00.4Z stdout F the end\n"
        "2026-01-02T10:00:00.5Z stderr P half\n"
        "2026-01-02T10:00:00.6Z stdout F other stream\n"
        "2026-01-02T10:00:00.7Z stderr F the other half\n"
        "2026-01-02T10:00:00.8Z stdout P then nothing\n"
        "2026-01-02T10:00:00.9Z stdout F\n"
        "no such format\n"
    )

    assert once(log, preset="cri") == [
        "2026-01-02T10:00:00.1Z stdout F whole",
        "2026-01-02T10:00:00.2Z stdout P part one, part two, the end",
        "2026-01-02T10:00:00.5Z stderr P half",
        "2026-01-02T10:00:00.6Z stdout F other stream",
        "2026-01-02T10:00:00.7Z stderr F the other half",
        "2026-01-02T10:00:00.8Z stdout P then nothing",
        "no such format",
    ]


def test_docker_parts_become_one_object(log: Path) -> None:
    def line(text: str, stream: str = "stdout", second: int = 0) -> str:
        return json.dumps({"log": text, "stream": stream, "time": f"2026-01-02T10:00:0{second}Z"}, separators=(",", ":")) + "\n"

    given = [line("whole\n"), line('one "x\\'), line("\\n two "), line("é\n", second=2), line("e", "stderr"), line("o\n")]
    log.write_text("".join(given))

    events = [json.loads(text) for text in once(log, preset="docker")]
    assert [event["log"] for event in events] == ["whole\n", 'one "x\\\\n two é\n', "e", "o\n"]
    assert events[1] == {"log": 'one "x\\\\n two é\n', "stream": "stdout", "time": "2026-01-02T10:00:02Z"}


VOCABULARY = [line for trace in TRACES.values() for event in trace for line in event.split("\n")] + [
    f"2026-01-02T10:00:00Z {stream} {flag} text" for stream in ("stdout", "stderr") for flag in "PF"
]
DOCKER = [
    json.dumps({"log": text, "stream": stream}, separators=(",", ":")) for text in ("a", "b\n") for stream in ("stdout", "stderr")
]


@pytest.mark.slow
@settings(deadline=None)
@given(
    st.lists(st.sampled_from(VOCABULARY + DOCKER), max_size=40),
    st.sampled_from(list(PRESETS)),
    st.integers(1, 500),
    st.sampled_from([64, 512]),
)
def test_preset_gives_the_same_events_however_a_file_is_read(given_: list[str], preset: str, size: int, block: int) -> None:
    with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        path = Path(folder) / "x.log"
        path.write_text("".join(f"{line}\n" for line in given_))
        whole = Run(path, 1, multiline={"preset": preset}).next(bounded=True)
        for module, name in (
            (line_cutter, "BLOCK_BYTES"),
            (event_boundaries, "FIRST_SEARCH_BYTES"),
            (split_planner, "MIN_SPLIT_BYTES"),
        ):
            patch.setattr(module, name, block)
        run = Run(path, 3, multiline={"preset": preset, "timeout": "1d"})
        found: Events = []
        while events := run.next(max_bytes=size):
            found += events

        assert found + run.next(bounded=True) == whole


@pytest.mark.parametrize("preset", PRESETS)
def test_the_scanner_compiles_every_preset(preset: Name) -> None:
    scanner = Multiline(preset=preset, max_lines=7).grouping().scanner

    assert {way.engine for way in scanner.engine_choices} == {"scanner"}
    assert {way.reason for way in scanner.engine_choices} == {None}


# ── Limits, line ends, encodings ──────────────────────────────────────────────────────────────────


def test_lines_beyond_max_lines_or_max_bytes_are_another_event(log: Path) -> None:
    log.write_text("S\n" + "c\n" * 5 + "S\ndd\n")

    assert once(log, start="^S", max_lines=4) == ["S\nc\nc\nc", "c\nc", "S\ndd"]
    assert once(log, start="^S", max_bytes=4) == ["S\nc", "c\nc", "c\nc", "S\ndd"]


def test_an_event_larger_than_a_block_is_complete(log: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(line_cutter, "BLOCK_BYTES", 64)
    event = "S" + "\nline of text" * 400
    log.write_text(f"{event}\nS\n{event}\n")

    assert once(log, start="^S") == [event, "S", event]


def test_returns_are_dropped_between_lines_too(log: Path) -> None:
    log.write_bytes(b"\xef\xbb\xbfS one\r\n two\r\n three\r\nS\r\nS\n mixed\r\n x\r")

    assert once(log, start="^S") == ["S one\n two\n three", "S", "S\n mixed\n x"]


@pytest.mark.parametrize("codec", ["latin-1", "gbk", "shift_jis"])
def test_other_charsets(log: Path, codec: str) -> None:
    text = "S é\n x\nS" if codec == "latin-1" else "S 中\n 中x\nS"
    log.write_bytes(text.encode(codec))

    run = Run(log, charset=codec, multiline={"start": "^S"})
    assert [found for _, found in run.next(bounded=True)] == [text[:-2], "S"]


def test_compressed_file(tmp_path: Path) -> None:
    data = "".join(f"S {n}\n more\n" for n in range(1000))
    path = tmp_path / "x.log.gz"
    path.write_bytes(gzip.compress(data.encode()))
    os.utime(path, (OLD, OLD))
    run = Run(path, multiline={"start": "^S"})

    first, rest = run.next(max_events=3), run.next()

    assert [text for _, text in first] == ["S 0\n more", "S 1\n more", "S 2\n more"]
    assert first + rest == reference(data.encode(), "start", "^S", 500, 1 << 20)


def test_small_files_share_a_split(tmp_path: Path) -> None:
    for name in "ab":
        (tmp_path / f"{name}.log").write_text(f"S {name}\n more\n")

    assert sorted(once(tmp_path / "*.log", start="^S")) == ["S a\n more", "S b\n more"]


# ── Following ─────────────────────────────────────────────────────────────────────────────────────


def add(path: Path, text: str) -> None:
    with path.open("a") as file:
        file.write(text)


def test_the_last_event_waits_for_the_next(log: Path) -> None:
    run = Run(log, multiline={"start": "^S", "timeout": "1d"})

    add(log, "S 1\n a\nS 2\n b\n")
    assert run.next() == [(0, "S 1\n a")]
    assert run.next() == []
    add(log, " c\nS 3\n")
    assert run.next() == [(7, "S 2\n b\n c")]


def test_an_event_with_its_end_line_is_complete_at_once(log: Path) -> None:
    run = Run(log, multiline={"end": "E$", "timeout": "1d"})

    add(log, "a\nbE\nc\n")

    assert run.next() == [(0, "a\nbE")]


def test_an_event_of_max_lines_is_complete_at_once(log: Path) -> None:
    run = Run(log, multiline={"start": "^S", "max_lines": 2, "timeout": "1d"})

    add(log, "S\n a\n")
    assert run.next() == [(0, "S\n a")]
    add(log, " b\nS\n")
    assert run.next() == [(5, " b")]


def test_a_line_that_is_too_long_completes_the_event_before_it(log: Path) -> None:
    run = Run(log, multiline={"start": "^S", "timeout": "1d"}, max_line_bytes=5)

    add(log, "S\n a\ntoo long\n")
    assert run.next() == [(0, "S\n a"), (5, "!too long")]
    add(log, " b\nS\n")
    assert run.next() == [(14, " b")]


def test_after_the_timeout_the_last_event_is_complete_and_later_lines_are_another(log: Path) -> None:
    run = Run(log, multiline={"start": "^S", "timeout": "5s"})
    add(log, "S 1\n a\nS 2\n b\nhal")
    os.utime(log, (OLD, OLD))

    assert run.next() == [(0, "S 1\n a"), (7, "S 2\n b")]
    add(log, "f\n c\nS 3\n")
    assert run.next() == [(14, "half\n c")]
    os.utime(log, (OLD, OLD))
    assert run.next() == [(22, "S 3")]


def test_a_rotated_file_is_read_to_its_end(tmp_path: Path, log: Path) -> None:
    run = Run(log, multiline={"start": "^S", "timeout": "1d"})
    add(log, "S 1\nS 2\n a\n")
    assert run.next() == [(0, "S 1")]

    log.rename(tmp_path / "x.log.1")
    add(tmp_path / "x.log.1", " b\nS 3\n")
    add(log, "S 4\nS 5\n")
    assert run.next() == [(4, "S 2\n a\n b"), (split_planner.PACK_SLOT, "S 4")]
    os.utime(tmp_path / "x.log.1", (OLD, OLD))
    assert run.next() == [(14, "S 3")]


def test_an_incomplete_event_of_a_copied_and_truncated_file_is_read_from_the_copy(tmp_path: Path, log: Path) -> None:
    run = Run(log, multiline={"start": "^S", "timeout": "1d"})
    add(log, "S 1\nS 2\n a\n")
    assert run.next() == [(0, "S 1")]

    shutil.copy(log, tmp_path / "x.log.1")
    os.utime(tmp_path / "x.log.1", (OLD, OLD))
    log.write_text("S 3\nS 4\n")

    assert run.next() == [(4, "S 2\n a"), (split_planner.PACK_SLOT, "S 3")]


def test_start_at_the_end_skips_lines_not_events(log: Path) -> None:
    add(log, "S 1\n a\n")
    run = Run(log, multiline={"start": "^S", "timeout": "1d"}, start="end")

    add(log, " b\nS 2\n")

    assert run.next() == [(7, " b")]


def test_a_file_without_event_begins_is_divided_by_size_only(log: Path) -> None:
    data = b"no beginning\n" * 20_000
    log.write_bytes(data)
    run = Run(log, parallelism=4, multiline={"start": "^S", "timeout": "1d"})
    found: Events = []
    while events := run.next(max_bytes=50_000):
        found += events
    found += run.next(bounded=True)

    assert found == reference(data, "start", "^S", 500, 1 << 20)


# ── Standard input ────────────────────────────────────────────────────────────────────────────────


def piped(source: StdinSource, data: bytes) -> None:
    reading, writing = os.pipe()
    thread = source.receiver(reading)
    thread.start()
    with os.fdopen(writing, "wb") as file:
        file.write(data)
    thread.join()
    os.close(reading)


def test_standard_input(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stdin_source, "_MIN_SPLIT_BYTES", 50)
    data = b"".join(b"S %d\n more\n" % n for n in range(500)) + b"last"
    source = StdinSource(multiline={"start": "^S"}).with_folder(str(tmp_path))
    piped(source, data)
    found, offset = [], source.start()
    for size in (700, 1, 1 << 40):
        end = source.latest(offset, Limit(size))
        found += [event for split in source.splits(offset, end, 3) for event in read(source, split)]
        offset = end

    assert found == reference(data, "start", "^S", 500, 1 << 20)
    assert source.ended(offset)


def test_the_last_event_of_an_open_pipe_waits_for_the_timeout(tmp_path: Path) -> None:
    source = StdinSource(multiline={"start": "^S", "timeout": "1d"}).with_folder(str(tmp_path))
    (tmp_path / f"{0:020d}.segment").write_text("S 1\nS 2\n a\n")

    assert source.latest(source.start(), Limit(1 << 30)) == {"offset": 4}
    os.utime(tmp_path / f"{0:020d}.segment", (OLD, OLD))
    assert source.latest(source.start(), Limit(1 << 30)) == {"offset": 11}


# ── Findings ──────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("multiline", "code", "path", "at"),
    [
        ({}, "one-of", (), None),
        ({"start": "^S", "preset": "java"}, "one-of", (), None),
        ({"start": "a(b"}, "bad-pattern", ("start",), 1),
        ({"continue": "%{YEAR}"}, "bad-pattern", ("continue",), 0),
        ({"end": r"(a)\1"}, "slow-pattern", ("end",), None),
    ],
)
def test_findings(multiline: dict[str, Any], code: str, path: tuple[str, ...], at: int | None) -> None:
    for source in (FileSource(path="x", multiline=multiline), StdinSource(multiline=multiline)):
        (finding,) = source.check()
        assert (finding.code, finding.path, finding.at) == (code, ("multiline", *path), at)
        assert finding.severity == ("warning" if code == "slow-pattern" else "error")


def test_wide_characters_are_a_finding() -> None:
    (finding,) = FileSource(path="x", charset="utf-16-le", multiline={"start": "^S"}).check()

    assert (finding.code, finding.path) == ("unknown-charset", ("charset",))


# ── Whole runs ────────────────────────────────────────────────────────────────────────────────────

COPY = """
    name: copy
    source:
      type: file
      path: "{here}/in/*.log"
      multiline: {start: '^S', max_lines: 4, timeout: TIMEOUT}
    sink: {type: file, path: "{here}/out.jsonl"}
    run: {trigger: 200ms}
"""


def delivered(path: Path) -> list[str]:
    return [json.loads(line)["message"] for line in path.read_text().splitlines()] if path.exists() else []


def size(path: Path) -> int:
    return path.stat().st_size if path.exists() else 0


@pytest.mark.spark
@pytest.mark.slow
def test_killed_at_any_moment_events_are_those_of_the_whole_file(etl: Etl, engine: Engine) -> None:
    (etl.folder / "in").mkdir()
    log, out = etl.folder / "in" / "a.log", etl.folder / "out.jsonl"
    log.touch()
    pipeline = etl.pipeline(COPY.replace("TIMEOUT", "1d"))
    data = "".join(f"S {n}\n" + f" more of {n}\n" * (n % 7) for n in range(20_000)).encode()
    at, step = 0, len(data) // 6 + 1
    for _ in range(2):
        running = etl.start("run", pipeline, "--master", "local[2]", "--state", etl.folder / "state", "-q")
        before = size(out)
        for _ in range(2):
            with log.open("ab") as more:
                more.write(data[at : at + step])
            at += step
        wait_for(lambda before=before: size(out) > before, what="the first output")
        running.send_signal(signal.SIGKILL)
        running.communicate()
    with log.open("ab") as more:
        more.write(data[at:])

    ran = engine.run(pipeline, "--once")

    assert ran.status == 0, ran.err
    assert delivered(out) == [text for _, text in reference(data, "start", "^S", 4, 1 << 20)]


@pytest.mark.spark
@pytest.mark.slow
def test_the_last_event_is_delivered_while_following(engine: Engine) -> None:
    (engine.etl.folder / "in").mkdir()
    (engine.etl.folder / "in" / "a.log").write_text("S 1\n a\nS 2\n b\n")
    pipeline, out = engine.etl.pipeline(COPY.replace("TIMEOUT", "100ms")), engine.etl.folder / "out.jsonl"

    with engine.following(pipeline):
        wait_for(lambda: len(delivered(out)) == 2, what="the last event")

    assert delivered(out) == ["S 1\n a", "S 2\n b"]
