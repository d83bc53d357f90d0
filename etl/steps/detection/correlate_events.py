"""The part of `correlate` on Arrow: events → rows for the correlations that they count for."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Literal

import pyarrow as pa
from pydantic import Field

from etl.api import ArrowStep, ComponentError, Outcome, Schema, visible
from etl.rules.correlation.routes import COUNTED, COUNTS
from etl.steps.detection.correlate import Correlate
from etl.steps.detection.rule_sources import RuleCacheKey, log, log_changes, log_left_out

if TYPE_CHECKING:
    from etl.tables.table_store import TableRequest


class CorrelateEvents(ArrowStep):
    """Match the rules that correlations name, and keep of each event what they look at."""

    opens_before_fork = True

    type: Literal["correlate (matching)"] = "correlate (matching)"
    of: Correlate
    alert_fields: frozenset[str] | None = Field(default=None, exclude=True)
    """The fields of alerts."""

    def named_tables(self) -> Mapping[tuple[str | int, ...], str]:
        """Those with its rules."""
        return self.of.named_tables()

    def table_requests(self) -> Iterable[TableRequest]:
        """What its rules need of them."""
        return self.of.table_requests()

    def fields(self, incoming: Schema) -> Schema:
        """The time, and what correlations need."""
        return pa.schema([incoming.field(self.of.time), (COUNTS, pa.list_(COUNTED))])

    def open(self, incoming: Schema) -> Callable[[pa.RecordBatch], Outcome]:
        """The rules as they are published now, compiled; kept in the process while they stay the same."""
        from etl.rules.correlation.events import route_events
        from etl.rules.sigma.taxonomy import TaxonomyError

        try:
            engine, along = _compile(self.of.cache_key(incoming), self.alert_fields)
        except TaxonomyError as error:
            raise ComponentError(f"correlate: {error}") from error

        dropped = frozenset(visible(incoming).names) - {self.of.time}

        def run(batch: pa.RecordBatch) -> Outcome:
            return Outcome(route_events(batch, engine.run(batch), along, self.of.sample, dropped))

        return run


@lru_cache(maxsize=8)
def _compile(key: RuleCacheKey[Correlate], alert_fields: frozenset[str] | None) -> tuple[Any, Any]:
    """Rules compiled once in a process, until they are others."""
    from etl.rules.compiled_rules import compile_rules
    from etl.rules.correlation.events import bind_routes
    from etl.rules.reload.taxonomy_cache import current_taxonomy
    from etl.rules.rule import RuleSet

    force = key.step.correlating(key.incoming, alert_fields)
    known = visible(key.incoming)
    base = compile_rules(RuleSet(force.base), current_taxonomy(key.step.taxonomy).taxonomy, known)
    log_left_out(key, [*force.problems, *base.problems])
    log_changes(key, [*base.rules, *(member for family in force.families.values() for member in family.members)])
    for problem in force.unknown_groups:
        log.warning("%s; the rule is left out", problem)
    routes = [route for some in force.routes.values() for route in some]
    return base.engine(known), bind_routes(routes, base.rules)
