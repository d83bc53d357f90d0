"""What a run prints of rules and tables."""

from __future__ import annotations

import time
from typing import Any

from etl.api import SplitMeasures
from etl.cli.run.step_summary import step_summary
from etl.receipts import OTHERS, Counts
from etl.spark.reports.step_measures import StepMeasures, TableInUse
from etl.spark.reports.totals import Totals


def lines(counted: SplitMeasures, **more: Any) -> list[str]:
    one = StepMeasures()
    one.add(counted)
    return list(step_summary(Totals(steps={"main[1] x": Counts(5000, 100)}, measured={"main[1] x": one}, **more)))


STATE = {"version": "abc", "rules": 1042, "left_out": 0, "refused": 0, "refused_because": ""}


def test_the_rules_that_matched_most_are_listed() -> None:
    matches = {f"rule {n}": n for n in range(1, 13)}
    tried = {f"rule {n}": 100 * n for n in range(1, 13)} | {"never": 4000}
    seconds = {"rule 12": 0.005, "dear": 0.4, OTHERS: 0.6}

    assert lines(SplitMeasures({"matches": matches, "tried": tried, "seconds": seconds}, STATE)) == [
        "  main[1] x: 5,000 events, 78 matches by 12 of 1,042 rules, version abc",
        "      matches   tried on  time",
        "           12      1,200   <1%  rule 12",
        *(f"    {n:>9}  {100 * n:>9,}   <1%  rule {n}" for n in range(11, 2, -1)),
        "            3      4,300        3 further rules",
        "    slowest: dear 40% of the time",
    ]


def test_nothing_matched() -> None:
    assert lines(SplitMeasures({"matches": {}}, {**STATE, "rules": 1})) == [
        "  main[1] x: 5,000 events, 0 matches by 0 of 1 rule, version abc",
    ]


def test_rules_that_are_not_loaded_are_counted() -> None:
    state = {**STATE, "left_out": 3, "refused": 1, "refused_because": "a.yml:1: 'a': no"}

    assert lines(SplitMeasures({"matches": {}}, state))[1:] == [
        "    3 rules left out: `etl rules check` says why",
        "    1 changed file refused, rules as before: a.yml:1: 'a': no",
    ]


def test_a_table_is_listed_with_its_age() -> None:
    counted = SplitMeasures({"found": {"intel": 1500}, "missed": {"intel": 500}})
    table = TableInUse("7", 20, built=time.time() - 130, checked=time.time(), failed=1, error="no such file")

    assert lines(counted) == ["  main[1] x: 1,500 of 2,000 events found in table 'intel'"]
    assert lines(counted, tables={"intel": table}) == [
        "  main[1] x: 1,500 of 2,000 events found in table 'intel', 20 rows, read 2 min ago; "
        "it could not be read again: no such file"
    ]


def test_rules_removed_during_the_run_are_counted() -> None:
    assert lines(SplitMeasures({"matches": {"a": 1, "b": 2}}, {**STATE, "rules": 1}))[0] == (
        "  main[1] x: 5,000 events, 3 matches by 2 rules, more than the 1 at the end, version abc"
    )
