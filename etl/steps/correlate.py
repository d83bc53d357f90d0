"""Correlate the matches of rules: so many within a time, of one group → one alert a burst."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from datetime import timedelta
from functools import lru_cache
from typing import TYPE_CHECKING, Annotated, Any, Literal

import pyarrow as pa
from pydantic import Field

from etl.api import TIMESTAMP, Duration, FieldName, Finding, Schema, Step, nearest, visible
from etl.steps.rules import OwnRule, Rules

if TYPE_CHECKING:
    from etl.rules.correlation_force import Correlating
    from etl.rules.rule import RuleSet

TOLD = pa.schema(
    [
        ("rule.id", pa.string()),
        ("rule.title", pa.string()),
        ("rule.level", pa.string()),
        ("rule.tags", pa.list_(pa.string())),
        ("rule.author", pa.string()),
        ("rule.version", pa.string()),
        ("window_start", TIMESTAMP),
        ("window_end", TIMESTAMP),
        ("last_seen", TIMESTAMP),
        ("correlation.type", pa.string()),
        ("correlation.count", pa.int64()),
        ("correlation.measure", pa.float64()),
        ("correlation.rules", pa.list_(pa.string())),
        ("correlation.values", pa.list_(pa.string())),
        ("correlation.samples", pa.list_(pa.string())),
    ]
)
"""Fields of every alert; those of its group stand beside them."""


class Correlate(Step):
    """Give one alert for each burst of events that meets a Sigma correlation rule.

    ``files`` and ``correlations`` hold correlation rules of Sigma's specification 2.1 (``event_count``, ``value_count``,
    ``temporal``, ``temporal_ordered``, and ``value_sum``, ``value_avg``, ``value_median``, ``value_percentile``), and the
    rules that they name: Sigma's, by ``name`` or ``id``, or ours, by ``name``. The step matches these rules itself; other
    events go no further. A correlation that cannot be run is left out and named by ``etl rules check``; the others run.

    Windows slide with the events. A condition that more events can only make true (``gt``, ``gte``, ``temporal`` without
    ``not``, ``temporal_ordered``) is judged with each event, over the events less than a timespan older: the alert comes
    with the micro-batch of the event that completes it. The burst goes on, without another alert, while the condition holds
    again less than a timespan after it last held. Any other condition (``lt``, ``lte``, ``eq``, ``neq``, ``not``, averages,
    medians, percentiles) is judged over windows that begin with a group's first event and follow one another, when the
    watermark passes their end. Events that come out of order count where their time says; those more than ``late`` behind
    the latest time read are dropped and counted. An event that lacks a group field or value counts for nothing.

    An alert has ``rule.*`` (id, title, level, tags, author, version), the group's fields, ``window_start`` (its first event),
    ``window_end`` (a timespan later), ``last_seen``, and ``correlation.*``: type, count of events, measure (what the
    condition compares), titles of the rules, and at most ten values and samples.

    State holds, for each correlation and group, the events of a timespan that may still count: where events are counted,
    about as many as the condition asks for and those of the last ``late``; otherwise at most 10,000, the latest of each rule
    or value first. It is given up when a group is silent for the timespan. Exactly-once across restarts; rules may change
    while it runs or between runs, and count from the next micro-batch on, but for new group fields, which need a restart.

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

    type: Literal["correlate"] = "correlate"
    files: tuple[Annotated[str, Field(min_length=1)], ...] = Field(
        default=(),
        description="Files of rules, or patterns of their names: correlations and the rules that they name.",
        examples=[["rules/**/*.yml"]],
    )
    rules: tuple[OwnRule, ...] = Field(
        default=(), description="Rules of our own that correlations may name, beside those in files."
    )
    correlations: tuple[dict[str, Any], ...] = Field(
        default=(),
        description="Correlation rules, written as in Sigma's files, beside those in files.",
        examples=[[{"title": "Brute force", "correlation": {"type": "event_count"}}]],
    )
    taxonomy: str | None = Field(
        default=None,
        alias="fields",
        min_length=1,
        description="File that maps Sigma's names of fields and log sources to the stream's.",
        examples=["sigma/windows.yml"],
    )
    placeholders: dict[str, tuple[str, ...]] = Field(
        default={},
        description="What stands for `%name%` in Sigma rules, beside those of the file of fields.",
        examples=[{"admins": ["alice", "bob"]}],
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
        """What the step `rules` says of them, unknown fields, correlations that cannot be decided, none at all."""
        found = [finding for finding in self.matching().check(incoming) if finding.code != "bad-rule"]
        yield from found
        yield from self._check_fields(incoming)
        if not any(finding.severity == "error" for finding in found):
            yield from self._check_correlations(incoming)

    def _check_fields(self, incoming: Schema) -> Iterator[Finding]:
        for option, name in (("time", self.time), ("sample", self.sample)):
            if name is not None and name not in incoming.names:
                hint = nearest(name, incoming.names) or f"fields here: {', '.join(visible(incoming).names)}"
                yield Finding("unknown-field", f"there is no field {name!r} here", (option,), hint)
        known = incoming.field(self.time).type if self.time in incoming.names else pa.null()
        if not (pa.types.is_timestamp(known) or pa.types.is_null(known)):
            hint = "put a timestamp step in front that reads it"
            yield Finding("wrong-type", f"event time {self.time!r} is {known}, and no timestamp", ("time",), hint)

    def _check_correlations(self, incoming: Schema) -> Iterator[Finding]:
        found = self._written(incoming)
        for problem in found.problems:
            yield Finding("bad-rule", str(problem), ("files",), "the rule is left out", "warning")
        if not found.families:
            hint = "a correlation rule has a 'correlation'; for matches of single events take the step rules"
            yield Finding("no-correlations", "there is no correlation rule that can run", ("files",), hint)
        for name in found.groups.names:
            if name in TOLD.names:
                message = f"correlations group by {name!r}, which alerts have already"
                yield Finding("name-conflict", message, ("files",), "map the field to another name")

    def fields(self, incoming: Schema) -> Schema:
        """What is told of an alert, and the fields that correlations group by."""
        from etl.rules.taxonomy import TaxonomyError

        try:
            groups = self._written(incoming).groups
        except TaxonomyError:
            return TOLD
        return pa.schema([*TOLD, *(field for field in groups if field.name not in TOLD.names)])

    def parts(self, incoming: Schema) -> Sequence[Step]:
        """The rules matched on Arrow, then the windows on Spark."""
        from etl.steps.correlate_events import CorrelateEvents
        from etl.steps.correlate_groups import CorrelateGroups

        reach = timedelta(microseconds=self._written(incoming).longest_micros)
        to = self.fields(incoming)
        return CorrelateEvents(of=self), CorrelateGroups(
            time=self.time, late=self.late, idle=self.idle, of=self, reaches=reach, to=to, incoming=incoming
        )

    def matching(self) -> Rules:
        """The step that has the same rules."""
        return Rules(files=self.files, rules=self.rules, fields=self.taxonomy, placeholders=self.placeholders)

    def correlating(self, incoming: Schema) -> Correlating:
        """The correlations as they are published now, in front of these fields; kept while they stay the same.

        Raises TaxonomyError.
        """
        return _correlating(self.model_dump_json(by_alias=True), self._state(), incoming, Correlate._published)

    def _written(self, incoming: Schema) -> Correlating:
        """The correlations as the files have them, good or bad. Raises TaxonomyError."""
        return _correlating(self.model_dump_json(by_alias=True), self._state(), incoming, Correlate._read)

    def _published(self, incoming: Schema) -> RuleSet:
        return self._with_written(self.matching().rule_set(incoming))

    def _read(self, _: Schema) -> RuleSet:
        from etl.rules.files import read_rules, rule_files
        from etl.rules.taxonomy import read_taxonomy

        own = [rule.model_dump(mode="json", exclude_defaults=True) for rule in self.rules]
        placeholders = {**read_taxonomy(self.taxonomy).placeholders, **self.placeholders}
        return self._with_written(read_rules(rule_files(self.files), own, placeholders))

    def _with_written(self, found: RuleSet) -> RuleSet:
        """The rules, and the correlations that the pipeline itself holds."""
        from etl.rules.correlation_families import resolved
        from etl.rules.files import rules_of
        from etl.rules.sigma import Document

        documents = [Document("correlations", number, data) for number, data in enumerate(self.correlations, 1)]
        written = rules_of({"correlations": documents}, {})
        correlations, problems = (*found.correlations, *written.correlations), (*found.problems, *written.problems)
        return resolved(replace(found, correlations=correlations, problems=problems))

    def _state(self) -> object:
        from etl.rules.files import state_of
        from etl.rules.taxonomy import found

        return state_of([*self.files, *([found(self.taxonomy)] if self.taxonomy else [])])


@lru_cache(maxsize=8)
def _correlating(options: str, state: object, incoming: Schema, rules: Callable[[Correlate, Schema], RuleSet]) -> Correlating:
    from etl.rules.correlation_force import correlating
    from etl.rules.taxonomy import read_taxonomy

    step = Correlate.model_validate_json(options)
    return correlating(rules(step, incoming), read_taxonomy(step.taxonomy), incoming)
