"""The `generate` source: events depend on their numbers only; rates, templates and findings."""

from __future__ import annotations

import re
from typing import Any

import pyarrow as pa
import pytest

from connectors.generate import source as generate_source
from connectors.generate.source import GenerateSource
from etl.api import Limit, Offset, Split

STARTED = 1_700_000_000_000_000
START: Offset = {"event": 0, "started": STARTED}
ROOM = Limit(max_bytes=2**30)
ONCE = Limit(max_bytes=2**30, bounded=True)


def messages(source: GenerateSource, first: int = 0, last: int = 10) -> list[str]:
    batches = list(source.read(Split("0", first, last, STARTED)))
    return [text for batch in batches for text in batch.column("message").to_pylist()]


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Any:
    def set_to(seconds_after_start: float) -> None:
        monkeypatch.setattr(generate_source.time, "time_ns", lambda: (STARTED + int(seconds_after_start * 1_000_000)) * 1000)

    set_to(0)
    return set_to


@pytest.mark.parametrize(
    ("template", "pattern"),
    [
        ("{i}", r"\d"),
        ("{now}", r"2023-11-14T22:13:20\.00\dZ"),
        ("{syslog_time}", r"Nov 14 22:13:20"),
        ("{http_time}", r"14/Nov/2023:22:13:20 \+0000"),
        ("{epoch} {epoch_millis}", r"1700000000 170000000000\d"),
        ("{ip}", r"([1-9]\d?|1\d\d|2[0-4]\d|25[0-5])(\.(\d|[1-9]\d|1\d\d|2[0-4]\d|25[0-5])){3}"),
        ("{ipv6}", r"2001:db8(:[0-9a-f]{4}){6}"),
        ("{uuid}", r"[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}"),
        ("{int:-5:5}", r"-?[0-5]"),
        ("{float:0:1}", r"[01](\.\d{1,3})?"),
        ("{hex:33}", r"[0-9a-f]{33}"),
        ("{choice:a|b c|}", r"a|b c|"),
        ("{user}@{host} {word} {method} {path} {status}", r"[a-z]+@[a-z]+\d\d [a-z]+ [A-Z]+ /\S* \d{3}"),
        ('{{"n": {i}}}', r'\{"n": \d\}'),
        ("plain", "plain"),
    ],
)
def test_placeholders(template: str, pattern: str) -> None:
    source = GenerateSource(templates=[template])

    assert list(source.check()) == []
    for text in messages(source):
        assert re.fullmatch(pattern, text), text


def test_an_event_depends_on_its_number_alone() -> None:
    source = GenerateSource(templates=["{i} {uuid} {ip}", "{now} {int:1:9}", "b"], weights=[3, 2, 1], seed=7, rate=10)

    whole = messages(source, 0, 100_000)

    assert messages(source, 40_000, 40_100) == whole[40_000:40_100]
    assert messages(source, 99_999, 100_000) == whole[99_999:]
    assert messages(GenerateSource(templates=source.templates, weights=source.weights, seed=8, rate=10), 0, 100) != whole[:100]


@pytest.mark.slow
def test_equal_placeholders_differ_and_values_spread() -> None:
    pairs = [text.split() for text in messages(GenerateSource(templates=["{int:1:6} {int:1:6}"]), 0, 60_000)]

    counts = {face: sum(a == face for a, _ in pairs) for face in "123456"}

    assert all(9_000 < count < 11_000 for count in counts.values())
    assert 9_000 < sum(a == b for a, b in pairs) < 11_000


def test_templates_are_chosen_by_weight() -> None:
    texts = messages(GenerateSource(templates=["a", "b"], weights=[9, 1]), 0, 50_000)

    assert 4_500 < texts.count("b") < 5_500


def test_offsets_number_the_events() -> None:
    (batch,) = GenerateSource().read(Split("0", 5, 8, STARTED))

    assert batch.schema == pa.schema([("message", pa.string()), ("_offset", pa.int64())])
    assert batch.column("_offset").to_pylist() == [5, 6, 7]


def test_splits_cover_the_range_without_gaps() -> None:
    source = GenerateSource()

    splits = source.splits(START, {"event": 200_001, "started": STARTED}, 3)

    assert [(s.start, s.end) for s in splits] == [(0, 66_667), (66_667, 133_334), (133_334, 200_001)]
    assert source.splits(START, START, 3) == []
    assert len(source.splits(START, {"event": 10, "started": STARTED}, 8)) == 1


def test_following_keeps_the_rate(clock: Any) -> None:
    source = GenerateSource(rate=100, count=1_000)

    assert source.start() == START
    assert source.latest(START, ROOM) == START
    clock(2.5)
    assert source.latest(START, ROOM)["event"] == 250
    clock(3600)
    assert source.latest(START, ROOM)["event"] == 1_000


def test_time_of_an_event_follows_the_rate() -> None:
    texts = messages(GenerateSource(rate=2, templates=["{now}"]), 0, 3)

    assert texts == ["2023-11-14T22:13:20.000Z", "2023-11-14T22:13:20.500Z", "2023-11-14T22:13:21.000Z"]


@pytest.mark.parametrize(
    ("options", "limit", "end"),
    [
        ({"rate": 1, "count": 500}, ONCE, 500),
        ({"rate": 1}, ONCE, 100_000),
        ({}, ONCE, 100_000),
        ({"count": 0}, ONCE, 0),
        ({"count": 500}, Limit(max_bytes=2**30, max_events=7, bounded=True), 7),
        ({"count": 500}, Limit(max_bytes=2**30, bounded=True, until={"event": 3, "started": STARTED}), 3),
        ({}, Limit(max_bytes=1), 1),
    ],
)
def test_the_end_of_a_batch(options: dict[str, Any], limit: Limit, end: int) -> None:
    assert GenerateSource(**options).latest(START, limit) == {"event": end, "started": STARTED}


def test_a_batch_stays_near_its_byte_limit() -> None:
    source = GenerateSource(templates=["x" * 1000])

    assert 900 <= source.latest(START, Limit(max_bytes=1_000_000))["event"] <= 1_000


def test_the_offset_of_a_finished_source_stays() -> None:
    end = {"event": 500, "started": STARTED}

    assert GenerateSource(count=500).latest(end, ONCE) == end
    assert GenerateSource(count=100).latest(end, ONCE) == end


@pytest.mark.parametrize(
    ("template", "at", "words"),
    [
        ("a {usr}", 2, "unknown placeholder 'usr'"),
        ("x { y", 2, "stray '{'"),
        ("x } y", 2, "stray '}'"),
        ("{int:a:b}", 0, "{int:1:100}"),
        ("{int:9:1}", 0, "9 is more than 1"),
        ("{int:0:99999999999999999999}", 0, "2^62"),
        ("{hex}", 0, "{hex:8}"),
        ("{hex:65}", 0, "1 to 64"),
        ("{choice:}", 0, "{choice:a|b|c}"),
        ("{i:3}", 0, "takes no argument"),
    ],
)
def test_findings_point_into_the_template(template: str, at: int, words: str) -> None:
    (finding,) = GenerateSource(templates=["fine", template]).check()

    assert (finding.code, finding.path, finding.at) == ("bad-template", ("templates", 1), at)
    assert words in finding.message


def test_similar_names_are_suggested() -> None:
    (finding,) = GenerateSource(templates=["{usr}"]).check()

    assert finding.hint == "did you mean 'user'?"


def test_each_template_needs_a_weight() -> None:
    (finding,) = GenerateSource(templates=["a", "b"], weights=[1]).check()

    assert (finding.code, finding.path) == ("weights-mismatch", ("weights",))
