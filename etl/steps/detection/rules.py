"""Match many rules against every event."""

from __future__ import annotations

import gc
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Literal

from pydantic import Field

from etl.api import ArrowStep, ComponentError, CountingOperator, FieldName, Finding, Schema, visible
from etl.steps.detection.rule_sources import RuleCacheKey, RuleSources, log_changes, log_left_out

if TYPE_CHECKING:
    from etl.rules.compiled_rules import CompiledRules


class Rules(RuleSources, ArrowStep):
    """Match rules against every event: Sigma rules and rules in Spark SQL, thousands at the cost of a few.

    ``files`` holds rules, one or several documents each: Sigma rules (specification 2.1), and rules of our own, which
    have a ``name`` and a ``where`` in Spark SQL, and may have ``level``, ``tags``, ``author``, ``metadata``. A rule that
    cannot be loaded, or that needs a field of another type, is left out and named by ``etl rules check``; the others run.
    Files are looked at with each micro-batch: a changed, new or removed one counts from the next on, and one that has
    become bad counts as it was before, which the log and the metrics say. Rules of ``tables`` come from a database or
    over HTTP, as often as the table's ``refresh`` says, and are treated the same, row by row. What each rule matched and
    the time it took stand in the run's summary and metrics.

    Sigma compares texts without regard to case unless ``cased`` says so, Spark SQL with regard to it. A Sigma rule asks
    a field that is missing or null for nothing: its selections are false, and ``not`` of them is true. In SQL a
    comparison with null is null, and only a condition that is true matches; a part that cannot be computed for an event,
    such as a cast that fails, counts as null. Keywords are looked for in all text fields. Regular expressions of Sigma
    are RE2's; those with look-around or back-references run text by text, for at most 0.1 s each.

    ``fields`` names a file that says what the stream calls Sigma's fields, which events a log source means and what
    placeholders stand for (`sigma/windows.yml` comes with the package); without its ``logsources`` every rule is tried
    on every event. Each match tells the rule's id, title, level, tags and author, the version of the set of rules, and
    what ``metadata`` names.

    ```yaml
    type: rules
    rules:
      - {name: shell by the web server, where: "process = 'sh' and parent like '%nginx%'", level: high, tags: [web]}
    output: matches
    ```
    """

    takes_views = True
    opens_before_fork = True

    type: Literal["rules"] = "rules"
    output: Literal["matches", "annotate", "alerts"] = Field(
        default="matches",
        description=(
            "Keep the events that match, each with its list `rules`; keep all events with that list; or make one event of "
            "each match, with the rule in `rule.*`."
        ),
    )
    metadata: tuple[FieldName, ...] = Field(
        default=(),
        description="Keys of the rules' metadata, or further keys of Sigma rules, that a match tells, too; lists as JSON.",
        examples=[["status", "references"]],
    )

    def check(self, incoming: Schema) -> Iterable[Finding]:
        """Findings about its rules, and about the keys of ``metadata``."""
        from etl.rules.engine.outputs import RULE_FIELDS

        for name in self.metadata:
            if name in RULE_FIELDS.names or self.metadata.count(name) > 1:
                yield Finding("duplicate-field", f"a match tells {name!r} already", ("metadata",))
        yield from self.rule_findings(incoming)

    def fields(self, incoming: Schema) -> Schema:
        from etl.rules.engine.outputs import output_fields

        return output_fields(self.output, self.metadata, incoming)

    def notes(self, incoming: Schema) -> Iterable[str]:
        """The number of rules, the work that they share, and how candidates are found."""
        from etl.rules.engine.explanation import explanation_lines
        from etl.rules.sigma.taxonomy import TaxonomyError

        here = self.model_copy(update={"tables": {}})
        for name in self.tables:
            yield f"the rules of table {name!r} are read when the run starts"
        try:
            yield from explanation_lines(here.compile_rules(incoming), visible(incoming))
        except TaxonomyError as error:
            yield str(error)

    def may_multiply_events(self) -> bool:
        return self.output == "alerts"

    def open(self, incoming: Schema) -> CountingOperator:
        """The published rules, compiled; cached in the process while they stay the same."""
        from etl.rules.engine.rule_matcher import RuleMatcher
        from etl.rules.sigma.taxonomy import TaxonomyError

        try:
            compiled, engine = _engine(self.cache_key(incoming))
        except TaxonomyError as error:
            raise ComponentError(f"rules: {error}") from error
        return RuleMatcher(compiled, engine, self.output, self.metadata)

    def compile_rules(self, incoming: Schema) -> CompiledRules:
        """The published rules, for events with these fields. Raises TaxonomyError."""
        from etl.rules.compiled_rules import compile_rules
        from etl.rules.correlation.families import drop_silent_rules
        from etl.rules.reload.taxonomy_cache import current_taxonomy

        names = current_taxonomy(self.taxonomy)
        found = compile_rules(drop_silent_rules(self.rule_set(incoming)), names.taxonomy, visible(incoming))
        return replace(found, outdated=(*names.outdated, *found.outdated))


@contextmanager
def pause_garbage_collection() -> Iterator[None]:
    """Pause garbage collection: thousands of rules are created and stay; searching them for garbage takes a third of the time."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


@lru_cache(maxsize=8)
def _engine(key: RuleCacheKey[Rules]) -> tuple[CompiledRules, Any]:
    """The compiled rules, once a process until they change."""
    with pause_garbage_collection():
        compiled = key.step.compile_rules(key.incoming)
        engine = compiled.engine(visible(key.incoming))
    log_left_out(key, compiled.problems)
    log_changes(key, compiled.rules)
    return compiled, engine
