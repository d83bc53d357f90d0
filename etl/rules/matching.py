"""Rules at work over one split: the function of the step `rules`, which counts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from etl.api import Counted, Outcome
from etl.receipts import OTHERS
from etl.rules.compiled_rules import InForce
from etl.rules.engine.batch_engine import Engine
from etl.rules.engine.program import Matches
from etl.rules.match_fields import Output
from etl.rules.outputs import WRITE, told
from etl.rules.rule import Rule

SMALL = 0.01
"""The part of a split's time below which a rule's is told with that of others: what travels is bounded."""

LONGEST_REASON = 300


class Matching:
    """Marks events with the rules that they meet."""

    def __init__(self, force: InForce, engine: Engine, output: Output, metadata: Sequence[str] = ()) -> None:
        self._force, self._engine = force, engine
        self._told, self._write = told(force.rules, force.version, metadata), WRITE[output]
        self._matches, self._tried = np.zeros((2, len(force.rules)), np.int64)
        engine.costs()  # those of another split

    def __call__(self, batch: pa.RecordBatch) -> Outcome:
        found = self._engine.run(batch)
        self._matches += np.bincount(found.rule, minlength=len(self._matches))
        self._tried += found.tried
        return self._outcome(batch, found)

    def look(self, batch: pa.RecordBatch) -> Outcome:
        return self._outcome(batch, self._engine.run(batch))

    def counts(self) -> Counted:
        names = names_of(self._force.rules)
        matches, tried = _counts(names, self._matches), _counts(names, self._tried)
        return Counted({"matches": matches, "tried": tried, "seconds": _large(names, self._engine.costs())}, self._state())

    def _outcome(self, batch: pa.RecordBatch, found: Matches) -> Outcome:
        return Outcome(self._write(batch, found, self._told))

    def _state(self) -> Mapping[str, str | float]:
        force = self._force
        reason = str(force.refused[0])[:LONGEST_REASON] if force.refused else ""
        return {
            "version": force.version,
            "rules": len(force.rules),
            "left_out": len(force.problems),
            "refused": len({problem.file for problem in force.refused}),
            "refused_because": reason,
        }


def names_of(rules: Sequence[Rule]) -> list[str]:
    """What each rule is called in counts: its title, with its id where others have that title, too."""
    titles = Counter(rule.title for rule in rules)
    return [rule.title if titles[rule.title] == 1 or rule.id == rule.title else f"{rule.title} ({rule.id})" for rule in rules]


def _counts(names: Sequence[str], amounts: Any) -> dict[str, int]:
    return {names[int(rule)]: int(amounts[rule]) for rule in np.flatnonzero(amounts)}


def _large(names: Sequence[str], seconds: Any) -> dict[str, float]:
    whole = float(seconds.sum())
    large = (
        {names[int(rule)]: round(float(seconds[rule]), 6) for rule in np.flatnonzero(seconds >= SMALL * whole)} if whole else {}
    )
    rest = whole - sum(large.values())
    return {**large, OTHERS: round(rest, 6)} if rest >= 1e-6 else large
