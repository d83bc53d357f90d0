"""Correlate the matches of rules: enough of one group within a time → one alert a burst."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from datetime import timedelta
from functools import lru_cache
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import pyarrow as pa
from pydantic import Field

from etl.api import Duration, FieldName, Finding, Schema, Step, format_type, unknown_field
from etl.rules.correlation.alert_fields import ALERT_FIELDS
from etl.steps.detection.rule_sources import RuleCacheKey, RuleSources

if TYPE_CHECKING:
    from etl.rules.correlation.compiled_correlations import CompiledCorrelations
    from etl.rules.rule import RuleProblem, RuleSet

_OWN = "correlations"
"""The file name of correlations in the pipeline itself."""


class Correlate(RuleSources):
    """Give one alert for each burst of events that meets a Sigma correlation rule.

    ``files``, ``tables`` and ``correlations`` hold correlation rules of Sigma's specification 2.1 (``event_count``,
    ``value_count``, ``temporal``, ``temporal_ordered``, and ``value_sum``, ``value_avg``, ``value_median``,
    ``value_percentile``), and the rules that they name: Sigma's, by ``name`` or ``id``, or ours, by ``name``; they are taken
    from there, and change, as those of the step `rules`. The step matches these rules itself; other events go no further. A
    correlation of a file or table that cannot be run is left out and named by ``etl rules check``; the others run.

    Windows slide with the events. A condition that more events can only make true (``gt``, ``gte``, ``temporal`` without
    ``not``, ``temporal_ordered``) is judged with each event, over the events less than a timespan older: the alert comes
    with the micro-batch of the event that completes it. The burst goes on, without another alert, while the condition holds
    again less than a timespan after it last held. Any other condition (``lt``, ``lte``, ``eq``, ``neq``, ``not``, averages,
    medians, percentiles) is judged over windows that begin with a group's first event and follow one another, when the
    watermark passes their end. Events that come out of order count where their time says; those more than ``late`` before
    the latest time read are dropped and counted. An event that lacks a group field or value counts for nothing.

    An alert has ``rule.*`` (id, title, level, tags, author, version), the group's fields, ``window_start`` (its first event),
    ``window_end`` (a timespan later), ``last_seen``, and ``correlation.*``: type, count of events, measure (what the
    condition compares), titles of the rules, and at most ten values and samples.

    State holds, for each correlation and group, the events of a timespan that may still count: where events are counted,
    about as many as the condition asks for and those of the last ``late``; otherwise at most 10,000, the latest of each rule
    or value first. It is kept in files in 16 parts (docs/state.md), to which a micro-batch adds rows; it reads the rows of
    groups that have events or a window that closes, and no others. Files hold rows that no longer count until they are merged:
    up to as many again, and an eighth of a timespan longer. Exactly-once across restarts, tested by killing runs at random
    moments; rules may change while it runs or between runs, and count from the next micro-batch on, for a group from its next
    event on. A correlation by a group field that alerts of this run have not is left out with a warning: one of a file runs
    from the next start on, one of a table when ``group_fields`` names the field.

    ```yaml
    type: correlate
    rules:
      - {name: failed login, where: "message like '%Failed password%'"}
    correlations:
      - title: Brute force
        level: high
        correlation: {type: event_count, rules: [failed login], group-by: [source.ip], timespan: 10m, condition: {gte: 5}}
    time: timestamp
    ```
    """

    stateful: ClassVar[bool] = True

    type: Literal["correlate"] = "correlate"
    correlations: tuple[dict[str, Any], ...] = Field(
        default=(),
        description="Correlation rules, written as in Sigma's files, beside those in files.",
        examples=[[{"title": "Brute force", "correlation": {"type": "event_count"}}]],
    )
    group_fields: tuple[FieldName, ...] = Field(
        default=(),
        description="Fields by which correlations of tables group, which alerts then have; those in files are known.",
        examples=[["source.ip"]],
    )
    time: FieldName = Field(description="Event time field, a timestamp.")
    late: Duration = Field(
        default=timedelta(seconds=10), description="How far behind the latest event time an event may come and still count."
    )
    sample: FieldName | None = Field(
        default=None,
        description="Field, such as an event's id or text, of which an alert shows the first ten values.",
        examples=["message"],
    )
    idle: Duration | None = Field(
        default=None, description="Silence of all sources after which open windows are closed; none means they wait."
    )

    def check(self, incoming: Schema) -> Iterable[Finding]:
        """Find what `rules` finds, unknown fields, correlations that cannot be evaluated, and a set without correlations."""
        found = [finding for finding in self.rule_findings(incoming) if finding.code != "bad-rule"]
        yield from found
        yield from self._check_fields(incoming)
        if not any(finding.code in ("bad-taxonomy", "no-rules") for finding in found):
            yield from self._check_correlations(incoming)

    def _check_fields(self, incoming: Schema) -> Iterator[Finding]:
        named = [(("group_fields", index), name) for index, name in enumerate(self.group_fields)]
        for path, name in ((("time",), self.time), (("sample",), self.sample), *named):
            if name is not None and name not in incoming.names:
                yield unknown_field(name, incoming, path)
        known = incoming.field(self.time).type if self.time in incoming.names else pa.null()
        if not (pa.types.is_timestamp(known) or pa.types.is_null(known)):
            hint = "put a timestamp step before this one, which reads it"
            yield Finding("wrong-type", f"event time {self.time!r} is {format_type(known)}, not a timestamp", ("time",), hint)

    def _check_correlations(self, incoming: Schema) -> Iterator[Finding]:
        from etl.steps.detection.rule_checks import rule_finding

        found = self._written(incoming)
        own = [problem for problem in found.problems if problem.file == _OWN]
        for problem in own:
            yield self._own_finding(problem)
        yield from (rule_finding(problem) for problem in found.problems if problem.file not in (_OWN, "rules"))
        if not found.families and not self.tables and not own:
            hint = "a correlation rule has a 'correlation'; for matches of single events take the step rules"
            yield Finding("no-correlations", "there is no correlation rule that can run", ("files",), hint)
        for name in (*found.groups.names, *self.group_fields):
            if name in ALERT_FIELDS.names:
                message = f"correlations group by {name!r}, which alerts have already"
                yield Finding("name-conflict", message, ("files",), "map the field to another name")

    def _own_finding(self, problem: RuleProblem) -> Finding:
        """The finding about a correlation of the pipeline itself, at its key."""
        from etl.rules.problem_locations import find_key

        number = problem.line - 1
        path = (_OWN, number, *find_key(problem.message, self.correlations[number]))
        return Finding("bad-rule", problem.text, path)

    def fields(self, incoming: Schema) -> Schema:
        """The fields of every alert, and those that correlations group by."""
        from etl.rules.sigma.taxonomy import TaxonomyError

        own = [incoming.field(name) for name in self.group_fields if name in incoming.names]
        try:
            found = (*own, *self._written(incoming).groups, *self._groups_of_bad(incoming))
        except TaxonomyError:
            return ALERT_FIELDS
        groups = {field.name: field for field in reversed(found) if field.name not in ALERT_FIELDS.names}
        return pa.schema([*ALERT_FIELDS, *reversed(groups.values())])

    def _groups_of_bad(self, incoming: Schema) -> Iterator[pa.Field]:
        """Fields by which those of its own correlations group that cannot run. Raises TaxonomyError."""
        from etl.rules.sigma.taxonomy import read_taxonomy

        fields = read_taxonomy(self.taxonomy).fields
        for number in [problem.line - 1 for problem in self._written(incoming).problems if problem.file == _OWN]:
            rule = self.correlations[number].get("correlation")
            names = rule.get("group-by") if isinstance(rule, dict) else None
            for name in [names] if isinstance(names, str) else names if isinstance(names, list) else ():
                known = fields.get(str(name), str(name))
                yield incoming.field(known) if known in incoming.names else pa.field(known, pa.null())

    def fields_depend_on(self, path: Sequence[str | int]) -> bool:
        """Whether an option gives alerts their fields: those that correlations group by; rules and conditions add none."""
        option, *inside = path
        if option == "correlations":
            return inside[1:] in ([], ["correlation"]) or inside[2:3] in (["group-by"], ["aliases"])
        return option in ("files", "tables", "taxonomy", "fields", "group_fields", "type")

    def parts(self, incoming: Schema) -> Sequence[Step]:
        """The rules matched, then the groups with their state."""
        from etl.steps.detection.correlate_events import CorrelateEvents
        from etl.steps.detection.correlate_groups import CorrelateGroups

        longest = timedelta(microseconds=self._written(incoming).longest_micros)
        to = self.fields(incoming)
        return CorrelateEvents(of=self, alert_fields=frozenset(to.names)), CorrelateGroups(
            time=self.time, late=self.late, idle=self.idle, of=self, longest=longest, to=to, incoming=incoming
        )

    def correlating(self, incoming: Schema, alert_fields: frozenset[str] | None = None) -> CompiledCorrelations:
        """The correlations as they are published now, for these incoming fields; kept while they stay the same. Those that
        group by what is not among ``alert_fields``, if these are given, are left out.

        Raises TaxonomyError.
        """
        return _compile_for_stream(self.cache_key(incoming), published=True, alert_fields=alert_fields)

    def _written(self, incoming: Schema) -> CompiledCorrelations:
        """The correlations as files and the pipeline have them, good or bad. Raises TaxonomyError."""
        return _compile_for_stream(self.model_copy(update={"tables": {}}).cache_key(incoming), published=False)

    def as_published(self, incoming: Schema) -> RuleSet:
        """The rules that are in force now, with its own correlations."""
        return self._with_correlations(self.rule_set(incoming))

    def as_read(self) -> RuleSet:
        """See `RuleSources.as_read`; with its own correlations."""
        return self._with_correlations(super().as_read())

    def _with_correlations(self, found: RuleSet) -> RuleSet:
        """The rules, and the correlations that the pipeline itself holds."""
        from etl.rules.correlation.families import resolve_names
        from etl.rules.files import Document
        from etl.rules.reader import rules_from_documents

        documents = [Document(_OWN, number, data) for number, data in enumerate(self.correlations, 1)]
        written = rules_from_documents({_OWN: documents}, {})
        correlations, problems = (*found.correlations, *written.correlations), (*found.problems, *written.problems)
        return resolve_names(replace(found, correlations=correlations, problems=problems))


@lru_cache(maxsize=8)
def _compile_for_stream(
    key: RuleCacheKey[Correlate], *, published: bool, alert_fields: frozenset[str] | None = None
) -> CompiledCorrelations:
    from etl.rules.correlation.compiled_correlations import compile_correlations, drop_unknown_groups
    from etl.rules.reload.taxonomy_cache import current_taxonomy

    step, names = key.step, current_taxonomy(key.step.taxonomy).taxonomy
    found = compile_correlations(step.as_published(key.incoming) if published else step.as_read(), names, key.incoming)
    return found if alert_fields is None else drop_unknown_groups(found, alert_fields)
