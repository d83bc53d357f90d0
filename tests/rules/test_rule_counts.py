"""What the step `rules` counts: matches and time of each rule, and the set of rules that was in force."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from etl.api import CountingOperator, SplitMeasures
from etl.receipts import OTHERS
from etl.rules.conditions.tree import And, Leaf
from etl.rules.engine.costs import Costs
from etl.rules.engine.rule_matcher import display_names
from etl.rules.rule import Rule
from etl.steps.detection.rules import Rules

SCHEMA = pa.schema([("process", pa.string()), ("n", pa.int64()), ("_offset", pa.int64())])


def events(*processes: str) -> pa.RecordBatch:
    numbers = list(range(len(processes)))
    return pa.RecordBatch.from_pydict({"process": list(processes), "n": numbers, "_offset": numbers}, schema=SCHEMA)


def opened(*given: dict[str, Any], **options: Any) -> CountingOperator:
    return Rules.model_validate({"type": "rules", "rules": list(given), **options}).open(SCHEMA)


def counted(*given: dict[str, Any], **options: Any) -> SplitMeasures:
    """Of five events."""
    run = opened(*given, **options)
    run(events("sh", "bash", "zsh"))
    run(events("sh", "x"))
    return run.measures()


SHELL, ZSH, NEVER = ({"name": name, "where": f"process = '{name}'"} for name in ("sh", "zsh", "fish"))


def test_matches_are_counted_by_rule() -> None:
    assert counted(SHELL, ZSH, NEVER).sums["matches"] == {"sh": 2, "zsh": 1}


def test_a_rule_is_evaluated_where_a_witness_holds() -> None:
    shell_of_root = {"name": "root", "where": "process = 'sh' AND n < 1"}

    assert counted(SHELL, shell_of_root, NEVER).sums["tried"] == {"sh": 2, "root": 2}


def test_a_rule_without_a_witness_is_evaluated_on_all_events() -> None:
    # given: more than fit into one word of bits
    run = opened({"name": "others", "where": "process != 'sh'"})

    # when
    for count in (1, 64, 65):
        run(events(*["sh"] * count))

    # then
    assert run.measures().sums["tried"] == {"others": 130}


def test_a_new_split_starts_at_zero() -> None:
    assert [counted(SHELL).sums["matches"] for _ in range(2)] == [{"sh": 2}, {"sh": 2}]


def test_inspected_events_are_not_counted() -> None:
    # given
    run = opened(SHELL)

    # when
    looked = run.preview(events("sh", "x"))

    # then
    assert looked.events.num_rows == 1
    assert run.measures().sums["matches"] == {}


def test_counts_name_the_version_of_the_rules() -> None:
    # when
    state = counted(SHELL, ZSH, {"name": "bad", "where": "nothing = 1"}).state

    # then
    assert (state["rules"], state["left_out"], state["refused"], state["refused_because"]) == (2, 1, 0, "")
    assert state["version"] == opened(SHELL, ZSH)(events("sh")).events.column("rules")[0].as_py()[0]["version"]


def test_counts_name_a_bad_file_until_it_is_corrected(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SLUICE_CACHE", str(tmp_path / "cache"))
    file = tmp_path / "a.yml"

    def state(text: str) -> Any:
        file.write_text(text)
        return counted(files=[str(file)]).state

    good = state("{name: a, where: n = 1}")
    bad = state("{name: a, where: n == }")
    other = counted(ZSH, files=[str(file)]).state
    mended = state("{name: a, where: n = 22}")

    assert (good["refused"], bad["refused"], other["refused"], mended["refused"]) == (0, 1, 1, 0)
    assert str(bad["refused_because"]).startswith(f"{file}:1: 'a': ")
    assert good["version"] == bad["version"] != mended["version"]


@pytest.mark.slow
def test_slow_rules_have_their_time_in_the_counts() -> None:
    # given
    cheap = [{"name": f"cheap {n}", "where": f"n = {n + 100}"} for n in range(200)]
    dear = {"name": "dear", "where": "process rlike '[a-y]+.*[b-z]+.*[0-9]x'"}
    run = opened(dear, *cheap)
    run(events("kernels", "are", "compiled"))
    run.measures()

    # when
    run(events(*(f"{'ab' * (n % 400)}{n}" for n in range(3000))))
    seconds = run.measures().sums["seconds"]

    # then
    assert seconds["dear"] > 0.5 * sum(seconds.values())
    assert len(seconds) < 100
    assert OTHERS in seconds


def test_time_is_shared_by_the_rules_that_have_a_predicate() -> None:
    # given: two predicates decided together, a third one apart
    costs = Costs([[0, 1], [2]])
    costs.start()
    for group in (0, 1, -1):
        costs.lap(group)
    costs.alone[1] = costs._spent[0]  # all the time of the first group was that of predicate 1
    first, second, conditions = costs._spent
    one, both, other = ({number: number for number in numbers} for numbers in ((1,), (1, 2), (0,)))

    # when
    sets = [And(tuple(Leaf(number) for number in known)) for known in (one, both, other)]  # type: ignore[arg-type]
    seconds = costs.take(sets, [one, both, other])  # type: ignore[list-item]

    # then
    third = conditions / 3
    expected = [first / 2 + third, first / 2 + second + third, third]
    assert seconds.tolist() == pytest.approx([nanoseconds / 1e9 for nanoseconds in expected])
    assert costs.take(sets, [one, both, other]).tolist() == [0, 0, 0]  # type: ignore[list-item]


def test_rules_with_one_title_are_named_with_their_ids() -> None:
    condition: Any = None
    rules = [Rule("1", "shell", condition), Rule("2", "shell", condition), Rule("3", "root", condition)]
    assert display_names(rules) == ["shell (1)", "shell (2)", "root"]
