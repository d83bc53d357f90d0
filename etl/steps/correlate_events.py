"""The part of `correlate` on Arrow: events → rows for the correlations that they count for."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, Literal

import pyarrow as pa

from etl.api import ArrowStep, ComponentError, Outcome, Schema, visible
from etl.rules.correlation_force import Correlating
from etl.rules.correlation_routes import COUNTS
from etl.steps.correlate import Correlate


class CorrelateEvents(ArrowStep):
    """Match the rules that correlations name, and keep of each event what they look at."""

    type: Literal["correlate (matching)"] = "correlate (matching)"
    of: Correlate

    def fields(self, incoming: Schema) -> Schema:
        """The time, and what correlations need."""
        return pa.schema([incoming.field(self.of.time), (COUNTS, pa.list_(pa.string()))])

    def open(self, incoming: Schema) -> Callable[[pa.RecordBatch], Outcome]:
        """The rules as they are published now, compiled; kept in the process while they stay the same."""
        from etl.rules.correlation_events import counting
        from etl.rules.taxonomy import TaxonomyError

        try:
            force = self.of.correlating(incoming)
        except TaxonomyError as error:
            raise ComponentError(f"correlate: {error}") from error
        engine, along = _compiled(_Asked(force, self.of, incoming))

        def run(batch: pa.RecordBatch) -> Outcome:
            return Outcome(counting(batch, engine.run(batch), along, self.of.sample))

        return run


@dataclass(frozen=True)
class _Asked:
    """Correlations in front of fields. The same ones are the same object."""

    force: Correlating
    of: Correlate = field(compare=False)
    incoming: Schema = field(compare=False)

    def __hash__(self) -> int:
        return id(self.force)


@lru_cache(maxsize=8)
def _compiled(asked: _Asked) -> tuple[Any, Any]:
    """Rules compiled once in a process, until they are others."""
    from etl.rules.correlation_events import ways
    from etl.rules.in_force import in_force
    from etl.rules.rule import RuleSet
    from etl.rules.taxonomy_standing import standing_taxonomy
    from etl.steps.rule_sources import say_left_out

    known = visible(asked.incoming)
    base = in_force(RuleSet(asked.force.base), standing_taxonomy(asked.of.taxonomy).taxonomy, known)
    say_left_out([*asked.force.problems, *base.problems])
    routes = [route for some in asked.force.ways.values() for route in some]
    return base.engine(known), ways(routes, base.rules)
