"""A Python function over the events of each key, with state."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import timedelta
from typing import Any, Literal

from pydantic import Field

from etl.api import (
    OPTIONAL,
    Duration,
    Finding,
    Operator,
    Schema,
    format_type,
    visible,
    with_fields,
)
from etl.steps.field_selection import reserved_name
from etl.steps.function_options import FunctionStep
from etl.steps.keyed.options import MICROSECOND, KeyedStep, bound_of_keys, ttl_findings
from etl.steps.option_checks import unused_option


class KeyedPython(FunctionStep, KeyedStep):
    """Call a Python function with the events of each key and the state of the key.

    `functions` of the file names the function. It gets the events of one key as dicts and the state that it returned for the key
    before, `None` at first, and returns events and the new state; `None` as state forgets the key:

    ```python
    class State(NamedTuple):
        logins: int
        countries: list[str]


    def track(events: list[dict], state: State | None) -> tuple[list[dict], State | None]: ...
    ```

    The annotation of the state says what is stored: a NamedTuple or dataclass of the file, a list, a `dict[str, int]` or a single
    value. Returned dicts may have the incoming fields and those in `fields`; one that is missing is null.

    With ``time`` the function is called when the watermark has passed the times of events, so that it gets them in the order of
    their times; it is the latest time of **all** events read, less ``late``, and events older than it are late: they are dropped
    and counted. Events without a time go to the dead letters.
    The number of events in one call depends on when they arrive, so the result must not depend on that number. Without ``time``
    events pass at once, those of a micro-batch in the order of their offsets.

    This is slow, as all Python with dicts: some microseconds for each event and each key of a micro-batch. An error in the
    function ends the run with its file and line, because a state without the event would be wrong; so does a call that takes
    longer than the function's `timeout`.

    State is a row for each key, kept for ever unless there is a ``ttl``; then it is removed when the watermark is that much
    later than its last event, or up to a quarter longer. Exactly-once across restarts. Other keys or another ``time`` or
    ``ttl`` need a new state, and so does changed code of the function's file, other than comments and formatting.

    ```yaml
    type: keyed_python
    function: track
    keys: [user_name]
    fields: {new_country: boolean}
    ttl: 30d
    ```
    """

    type: Literal["keyed_python"] = "keyed_python"
    ttl: Duration | None = Field(
        default=None,
        description="How long after its last event the state of a key is removed; none means never.",
        examples=["30d"],
    )
    idle: Duration | None = Field(
        default=None, description="Silence of all sources after which waiting events pass; none means they wait."
    )

    def check(self, incoming: Schema) -> Iterable[Finding]:
        """What all keyed steps check, and a function of another kind."""
        yield from super().check(incoming)
        yield from ttl_findings(self.ttl, "", False)
        for name in self.fields_given:
            yield from reserved_name(name, ("fields", name))
        if self.idle is not None and self.time is None:
            yield unused_option("idle", "no event waits that idle could let pass", "leave out idle, or give a time")
        name = self.called.attribute if self.called else ""
        hint = f"def {name}(events: list[dict], state: State | None) -> tuple[list[dict], State | None]:"
        yield from self.check_form(("keyed",), "the events and the state of a key", hint)

    def fields(self, incoming: Schema) -> Schema:
        """The incoming fields, and those that the function gives."""
        return with_fields(visible(incoming), self.given)

    def idle_after(self) -> timedelta | None:
        """The option."""
        return self.idle

    def notes(self, incoming: Schema) -> Iterable[str]:
        """How long the state of a key is kept."""
        yield bound_of_keys(self.ttl)

    def remembered(self, incoming: Schema) -> dict[str, Any]:
        """Keys and time, the state's type and code; the fields of events that wait."""
        function = self._function
        state = {"code": function.version, "state": format_type(function.state)} if function is not None else {}
        events = {f"{OPTIONAL}{f.name}": format_type(f.type) for f in visible(incoming)} if self.time else {}
        return {**super().remembered(incoming), **state, "ttl": None if self.ttl is None else str(self.ttl), **events}

    def operator(self, incoming: Schema) -> Operator:
        """Calls of the function."""
        from etl.state.keyed.function_calls import FunctionCalls
        from etl.state.keyed.time_to_live import TimeToLive

        assert self._function is not None
        ttl = TimeToLive(None if self.ttl is None else self.ttl // MICROSECOND)
        fields, waits = self.fields(incoming), self.time is not None
        return FunctionCalls(fields, self.keys, self.event_time()[0], waits, self._function, visible(incoming), ttl)
