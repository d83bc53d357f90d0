"""A learner's budgets and its files; `test_scanner_laws` checks that the order of training changes nothing."""

from __future__ import annotations

import itertools
import pickle
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pytest
from oracles import tree

from etl.columns.texts import Texts
from etl.scanner import learning
from etl.scanner.automata.automaton import UNKNOWN
from etl.scanner.learning import Learner, MatchArrays
from etl.scanner.scanner import Scanner
from etl.scanner.stages import _learner

pytestmark = pytest.mark.slow

PATTERN = r"(?P<key>[a-z]+)=(?:(?P<number>\d+)|(?P<word>\w+))"
LINES = ["a=1", "key=value", "no", "x9=y", "=", "ab=12c"] * 250
"""More than `SAVE_AFTER`."""


def learner(pattern: str = PATTERN, where: Any = "anywhere") -> Learner:
    return Learner([tree(pattern)], where)


def scanned(of: Learner, texts: Sequence[str]) -> MatchArrays:
    return of.scan(Texts.of(pa.array(texts, pa.string())))


def listed(spans: MatchArrays) -> list[Any]:
    return [spans.pattern.tolist(), spans.views.tolist(), spans.valid.tolist()]


def stuck(*_: object) -> bool:
    raise AssertionError("it learns what it has learned before")


# ── Bounds ────────────────────────────────────────────────────────────────────────────────────────


def test_states_are_bounded_within_a_text(own_cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(learning, "MAX_STATES", 50)
    explosive = learner("(?:a|b)*a(?:a|b){9}c", "beginning")

    spans = scanned(explosive, ["".join(Random(1).choices("ab", k=2000))])

    assert spans.pattern.tolist() == [UNKNOWN]
    assert explosive._load_automaton().expanded == 50


def test_nothing_is_learned_without_time(own_cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(learning, "FIRST_SECONDS", -1.0)

    spans = scanned(learner(), LINES[:5])

    assert spans.pattern.tolist() == [UNKNOWN] * 5
    assert not spans.valid.any()


def test_what_others_took_for_its_texts_lets_it_learn_more(own_cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(learning, "FIRST_SECONDS", -1.0)
    of = learner()
    scanned(of, LINES[:5])

    of.charge(100.0)
    spans = scanned(of, LINES[:5])

    assert spans.pattern.tolist() == [0, 0, -1, -1, -1]


def test_time_in_which_other_processes_run_is_not_time_for_learning(own_cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    later = itertools.count(0.0, 1000.0)
    monkeypatch.setattr(time, "perf_counter", lambda: next(later))

    spans = scanned(learner(), LINES[:5])

    assert spans.pattern.tolist() == [0, 0, -1, -1, -1]


def test_texts_beyond_at_the_beginning_do_not_keep_others_from_being_learned(own_cache: Path) -> None:
    of = learner(r"(?!ab)(?P<x>[a-c]+)(?P<y>[x-z]+)", "beginning")
    scanned(of, ["-"])

    spans = scanned(of, ["abx"] * 300 + ["cax"] * 300)

    assert spans.pattern.tolist() == [UNKNOWN] * 300 + [0] * 300


def test_a_line_beyond_what_was_learned_of_its_beginning_is_not_searched(own_cache: Path) -> None:
    found = Scanner([tree("^(?!ab)(?P<x>[a-c]+)")]).scan(pa.array(["abx", "cax"]))

    assert found.pattern.tolist() == [-1, 0]
    assert _learner.cache_info().currsize == 1  # that of the beginning


def test_it_gives_up_when_most_texts_are_left_to_others(own_cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(learning, "GIVE_UP_AFTER", 20)
    of = learner("(?!ab)[a-c]+", "beginning")
    scanned(of, ["ca"] * 20 + ["ab"])
    assert not of.given_up

    scanned(of, ["ab"] * 40)
    spans = scanned(of, ["ca"])

    assert of.given_up
    assert spans.pattern.tolist() == [UNKNOWN]


def test_only_the_beginning_of_a_long_text_is_used_for_training(own_cache: Path) -> None:
    of = learner("(?P<x>a+)(?P<y>b+)(?P<z>c+)", "beginning")
    size = learning.MAX_BYTES

    left = scanned(of, ["a" * size + "bc"])
    found = scanned(of, ["abc", "a" * size + "bc"])

    assert left.pattern.tolist() == [UNKNOWN]
    assert found.pattern.tolist() == [0, 0]
    assert found.views[:, 1, 0].tolist() == [size, 1, 1]  # lengths


# ── On disk ───────────────────────────────────────────────────────────────────────────────────────


def test_learned_states_are_loaded_in_the_next_run(own_cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    expected = listed(scanned(learner(), LINES))
    assert sorted(file.suffix for file in own_cache.iterdir()) == [".automaton", ".tables"]
    monkeypatch.setattr(Learner, "_learn", stuck)

    assert listed(scanned(learner(), LINES)) == expected


def test_new_states_are_added_to_loaded_ones(own_cache: Path) -> None:
    scanned(learner(), ["a=1"] * 1000)

    assert listed(scanned(learner(), LINES)) == listed(scanned(learner(f"({PATTERN})"), LINES))


def test_few_texts_that_cost_little_are_not_stored(own_cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(learning, "SAVE_SECONDS", 10.0)
    scanned(learner(), LINES[:10])

    assert not own_cache.exists()


def test_few_texts_that_cost_much_are_stored(own_cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(learning, "SAVE_SECONDS", 0.0)
    first = listed(scanned(learner(), LINES[:6]))
    monkeypatch.setattr(Learner, "_learn", stuck)

    assert listed(scanned(learner(), LINES[:6])) == first


def _cut(data: bytes) -> bytes:
    return data[: len(data) // 2]


SPOILT: dict[str, Callable[[bytes], bytes]] = {
    "cut": _cut,
    "empty": lambda data: b"",
    "foreign": lambda data: b"\x7fELF" + data,
    "another object": lambda data: pickle.dumps({"tables": 1}),
    "an object of a class that is gone": lambda data: b"cno_such_module\nGone\n.",
}


@pytest.mark.parametrize("suffixes", [[".tables"], [".automaton"], [".tables", ".automaton"]])
@pytest.mark.parametrize("spoil", SPOILT.values(), ids=SPOILT)
def test_corrupt_files_are_ignored_and_written_again(
    own_cache: Path, spoil: Callable[[bytes], bytes], suffixes: list[str]
) -> None:
    expected = listed(scanned(learner(), LINES))
    for file in own_cache.iterdir():
        file.unlink()
    scanned(learner(), ["a=1"] * 1000)
    for file in own_cache.iterdir():
        if file.suffix in suffixes:
            file.write_bytes(spoil(file.read_bytes()))

    assert listed(scanned(learner(), LINES)) == expected
    assert all(pickle.loads(file.read_bytes()) for file in own_cache.iterdir())


def test_tables_beside_the_automaton_of_another_run(own_cache: Path) -> None:
    """Two runs that save at once can leave such a pair: states that only the automaton has must still get into the tables."""
    scanned(learner(), ["a=1"] * 1000)
    old = {file: file.read_bytes() for file in own_cache.iterdir()}
    scanned(learner(), LINES)
    for file, data in old.items():
        if file.suffix == ".tables":
            file.write_bytes(data)

    spans = scanned(learner(), LINES)

    assert UNKNOWN not in spans.pattern


def test_a_missing_folder_costs_only_time(own_cache: Path) -> None:
    own_cache.write_text("no folder")

    spans = scanned(learner(), LINES)

    assert UNKNOWN not in spans.pattern
    assert own_cache.read_text() == "no folder"


_RUN = """
import sys
from pathlib import Path
import pyarrow as pa
from etl.columns import disk_cache
disk_cache.folder = lambda: Path(sys.argv[1])
from etl.scanner.scanner import Scanner
from etl.scanner.syntax import parse
scanner = Scanner([parse(sys.argv[2], None)])
words = [f"{'abc'[n % 3] * (n % 9)}={n if n % 2 else 'w'}" for n in range(int(sys.argv[3]), 20000, 7)]
for first in range(0, len(words), 500):
    part = pa.array(words[first:first + 500])
    keys = scanner.scan(part).captures["key"].to_pylist()
    assert keys == [word.partition("=")[0] or None for word in part.to_pylist()], keys
"""


def test_two_processes_learn_and_save_at_the_same_time(tmp_path: Path) -> None:
    runs = [subprocess.Popen([sys.executable, "-c", _RUN, str(tmp_path), PATTERN, str(n)]) for n in range(2)]

    assert [run.wait(timeout=120) for run in runs] == [0, 0]

    files = list((tmp_path / "scanners").iterdir())
    assert {file.suffix for file in files} == {".automaton", ".tables"}  # no drafts are left
    assert all(pickle.loads(file.read_bytes()) for file in files)
