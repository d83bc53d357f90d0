"""The function of the step `rules` in one split: marks events with the rules that match them, and counts matches."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from etl.api import Outcome, SplitMeasures
from etl.receipts import OTHERS
from etl.rules.compiled_rules import CompiledRules
from etl.rules.engine.batch_engine import Engine
from etl.rules.engine.outputs import WRITERS, Output, rule_structs
from etl.rules.engine.program import Matches
from etl.rules.rule import Rule

SMALL_SHARE = 0.01
"""Rules that take less than this part of a split's time are counted together, which bounds the counts' size."""

LONGEST_REASON = 300
"""Characters of a problem in the counts."""


class RuleMatcher:
    """Matches rules against batches."""

    def __init__(self, compiled: CompiledRules, engine: Engine, output: Output, metadata: Sequence[str] = ()) -> None:
        self._compiled, self._engine = compiled, engine
        self._structs, self._write = rule_structs(compiled.rules, compiled.version, metadata), WRITERS[output]
        self._matches, self._tried = np.zeros((2, len(compiled.rules)), np.int64)
        engine.costs()  # discards the time of another split, as reading the costs resets them

    def __call__(self, batch: pa.RecordBatch) -> Outcome:
        found = self._engine.run(batch)
        self._matches += np.bincount(found.rule, minlength=len(self._matches))
        self._tried += found.tried
        return self._outcome(batch, found)

    def preview(self, batch: pa.RecordBatch) -> Outcome:
        return self._outcome(batch, self._engine.run(batch))

    def measures(self) -> SplitMeasures:
        names = display_names(self._compiled.rules)
        matches, tried = _counts_by_name(names, self._matches), _counts_by_name(names, self._tried)
        seconds = _seconds_by_name(names, self._engine.costs())
        return SplitMeasures({"matches": matches, "tried": tried, "seconds": seconds}, self._state())

    def _outcome(self, batch: pa.RecordBatch, found: Matches) -> Outcome:
        return Outcome(self._write(batch, found, self._structs))

    def _state(self) -> Mapping[str, str | float]:
        """The version of the rules, and how many are left out; keys are those of the metrics."""
        compiled = self._compiled
        reason = str(compiled.outdated[0])[:LONGEST_REASON] if compiled.outdated else ""
        return {
            "version": compiled.version,
            "rules": len(compiled.rules),
            "left_out": len(compiled.problems),
            "refused": len({problem.file for problem in compiled.outdated}),
            "refused_because": reason,
        }


def display_names(rules: Sequence[Rule]) -> list[str]:
    """The name of each rule in counts: its title, and its id if other rules have the same title."""
    titles = Counter(rule.title for rule in rules)
    return [rule.title if titles[rule.title] == 1 or rule.id == rule.title else f"{rule.title} ({rule.id})" for rule in rules]


def _counts_by_name(names: Sequence[str], amounts: Any) -> dict[str, int]:
    return {names[int(rule)]: int(amounts[rule]) for rule in np.flatnonzero(amounts)}


def _seconds_by_name(names: Sequence[str], seconds: Any) -> dict[str, float]:
    """The time of each rule that takes much, and the sum of the others."""
    whole = float(seconds.sum())
    large = (
        {names[int(rule)]: round(float(seconds[rule]), 6) for rule in np.flatnonzero(seconds >= SMALL_SHARE * whole)}
        if whole
        else {}
    )
    rest = whole - sum(large.values())
    return {**large, OTHERS: round(rest, 6)} if rest >= 1e-6 else large
