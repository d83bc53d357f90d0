"""Steps of other tools in the words of ingest processors, whose import they share."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from etl.migration.draft import Draft, DraftStep, NoCounterpartError
from etl.migration.ingest.parser_processors import KEEP_REST
from etl.migration.ingest.pipeline import PROCESSORS
from etl.migration.ingest.processor import Processor
from etl.migration.report import ImportReport, OmittedConstruct
from etl.migration.sampling import Member
from etl.migration.values import FALSE, TRUTH, Value, both, field_value, negation


@dataclass
class TranslatedSteps:
    """Adds steps to a draft, and notes what has no counterpart."""

    draft: Draft
    report: ImportReport
    timezone: str = "UTC"
    samples: Mapping[str, Mapping[str, Member]] = field(default_factory=dict)

    def apply(self, name: str, options: Mapping[str, Any], where: Value | None) -> None:
        """Import a processor where the condition is true. Raises NoCounterpartError."""
        if where == FALSE:
            return
        given = {key: value for key, value in options.items() if value is not None}
        if name == "json":
            given[KEEP_REST] = True
        PROCESSORS[name](Processor(name, given, self.draft, where, self._handle, None, {}, self.timezone, self.samples))

    def attempt(self, name: str, options: Mapping[str, Any], where: Value | None, failed: Sequence[Any] = ()) -> Value | None:
        """Import a processor that may fail: the condition of its success. ``failed`` are processors for where it fails."""
        failure = self.failure(name, options, where, failed)
        return where if failure is None else both(where, negation(failure))

    def failure(self, name: str, options: Mapping[str, Any], where: Value | None, failed: Sequence[Any] = ()) -> Value | None:
        """Import a processor that may fail: a field that is true where it has failed; None if it cannot fail."""
        mark = self.draft.new_temporary("failed")
        handlers = [{"set": {"field": mark, "value": True}}, *failed]
        before = len(self.draft.steps)
        self.apply(name, {**options, "on_failure": handlers}, where)
        if mark not in self.draft.types or len(self.draft.steps) == before:
            self.draft.temporary.remove(mark)
            return None
        return field_value(mark, TRUTH)

    def _handle(self, processors: Sequence[Any], condition: Value | None, constants: Mapping[str, Value]) -> None:
        for entry in processors:
            ((name, options),) = entry.items()
            self.apply(name, options, condition)

    def leave(self, location: str, construct: str, reason: str) -> None:
        """Note a construct that is not carried over, in the report and at its place."""
        self.report.left.append(OmittedConstruct(location, construct, reason))
        self.draft.comment(f"NOT CARRIED OVER: {construct}: {reason}")

    def unnest(self, name: str, target: str | None, where: Value | None) -> None:
        """An event for each item of an array."""
        type_ = self.draft.field(name).type
        if where is not None:
            raise NoCounterpartError("under a condition; a stream of its own with `filter` and `unnest` does it")
        if not type_.startswith("array<"):
            raise NoCounterpartError(f"{name} is not an array here")
        self.draft.steps.append(
            DraftStep({"type": "unnest", "field": name, **({"target": target} if target else {})}, self.draft.last_comments)
        )
        self.draft.last_comments = []
        self.draft.types[target or name] = type_[6:-1]
