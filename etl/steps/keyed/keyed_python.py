"""A Python function over the events of each key, with state."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import timedelta
from typing import Any, Literal, Self

from pydantic import Field, PrivateAttr

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
from etl.steps.option_checks import length_finding, unused_option
from etl.udf.declaration import Functions, UserFunction


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

    An event for which the function raises an error, or returns what is not declared, goes to the dead letters with the code
    `function-failed` and the last line of the traceback, and the state stays as it was before the event: the function gets the
    events of the key again in halves to find it. A call that takes longer than the function's `timeout` is ended, and its events
    are dead letters.

    **Timers.** With ``on_timer`` the function returns, as a third value, the time at which the key is looked at again, `None` for
    none, or a list of times. They replace those that it returned before. When the watermark has passed the time, or without
    ``time`` the clock, the function ``on_timer`` is called, once, with the key, its state and that time:

    ```python
    def track(events: list[dict], state: State | None) -> tuple[list[dict], State | None, datetime | None]: ...


    def silent(key: dict, state: State, time: datetime) -> tuple[list[dict], State | None, datetime | None]: ...
    ```

    Its events have the fields of the key, and ``time`` if it has none. Events and timers of a key are called in the order of
    their times, events of one time together and before a timer of that time. A state that is `None` has no timers. A call of a
    timer that fails is a dead letter, `timer-failed`, with the key and the time; the timer is over. Without ``time`` a timer is
    called with the next events, or after ``timer_precision`` if none come. When the input ends and ``--drain`` is given, or after
    ``idle``, event time goes on by ``timer_limit``, so that the timers that wait are called.

    This is slow, as all Python with dicts: some microseconds for each event and each key of a micro-batch, and with timers for
    each time of a key.

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
    on_timer: str | None = Field(
        default=None, description="The function that is called when a timer of a key is due.", examples=["silent"]
    )
    timer_limit: Duration = Field(
        default=timedelta(days=1), description="How far ahead of a call the timers may be that it sets.", examples=["30m"]
    )
    timer_precision: Duration = Field(
        default=timedelta(seconds=10),
        description="How late a timer without `time` may be called while no events come; each time costs an empty micro-batch.",
        examples=["1s"],
    )

    _on_timer: UserFunction | None = PrivateAttr(default=None)

    def named_functions(self) -> Mapping[tuple[str | int, ...], str]:
        """Path of an option → the function that it names."""
        return {**super().named_functions(), **({("on_timer",): self.on_timer} if self.on_timer else {})}

    def with_functions(self, functions: Functions) -> Self:
        """This step with its functions."""
        step = super().with_functions(functions)
        step._on_timer = functions.get(self.on_timer.lower()) if self.on_timer else None
        return step

    @property
    def functions(self) -> Sequence[UserFunction]:
        """The functions, once they are known."""
        return [*super().functions, *(() if self._on_timer is None else (self._on_timer,))]

    def check(self, incoming: Schema) -> Iterable[Finding]:
        """What all keyed steps check, and a function of another kind."""
        yield from super().check(incoming)
        yield from ttl_findings(self.ttl, "", False)
        for name in self.fields_given:
            yield from reserved_name(name, ("fields", name))
        if self.idle is not None and self.time is None:
            yield unused_option("idle", "no event waits that idle could let pass", "leave out idle, or give a time")
        name = self.declared_function.attribute if self.declared_function else ""
        hint = f"def {name}(events: list[dict], state: State | None) -> tuple[list[dict], State | None]:"
        yield from self.check_form(("keyed",), "the events and the state of a key", hint)
        function = self.declared_function
        if function is not None and function.form == "keyed":
            yield from self._timer_findings(function)

    def _timer_findings(self, function: UserFunction) -> Iterator[Finding]:
        """Functions that do not fit each other, and options of timers without effect."""
        if self.on_timer is None:
            if function.sets_timers:
                hint = "name the function that is called then: on_timer"
                yield Finding(
                    "bad-function", f"{function.name}() returns timers, and nothing is called for them", ("function",), hint
                )
            for name in ("timer_limit", "timer_precision"):
                if name in self.model_fields_set:
                    yield unused_option(name, "no timer is set", f"leave out {name}, or give on_timer")
            return
        yield from length_finding("timer_limit", self.timer_limit)
        yield from length_finding("timer_precision", self.timer_precision)
        if self.ttl is not None:
            hint = "leave out ttl, and set a timer whose function returns None as state"
            yield Finding("unused-option", "the state of a key with timers ends with them, and not by ttl", ("ttl",), hint)
        if self.time is not None and "timer_precision" in self.model_fields_set:
            yield unused_option("timer_precision", "timers go by event time", "leave out timer_precision, or time")
        timer = self._on_timer
        if timer is None or timer.is_broken:
            return
        if timer.form != "timer":
            result = "tuple[list[dict], State | None, datetime | None]"
            hint = f"def {timer.attribute}(key: dict, state: State, time: datetime) -> {result}:"
            yield Finding("bad-function", f"{timer.name}() is not a function of a key, its state and a time", ("on_timer",), hint)
        elif not (function.sets_timers and timer.sets_timers):
            name = timer.name if function.sets_timers else function.name
            hint = "return the time of the next timer as a third value, None for none"
            yield Finding("bad-function", f"{name}() does not say what the timers of the key are", ("on_timer",), hint)
        elif timer.code != function.code or timer.state != function.state:
            hint = "write both functions into one file, with the same annotation of the state"
            yield Finding("bad-function", f"{timer.name}() has another state than {function.name}()", ("on_timer",), hint)

    def fields(self, incoming: Schema) -> Schema:
        """The incoming fields, and those that the function gives."""
        return with_fields(visible(incoming), self.result_types)

    def idle_after(self) -> timedelta | None:
        """The option."""
        return self.idle

    def max_delay(self) -> timedelta:
        """How far ahead a timer may be."""
        return self.timer_limit if self.on_timer else timedelta(0)

    def intervals(self) -> Mapping[timedelta, bool]:
        """The interval at which timers by the clock are looked at while no events come."""
        return {self.timer_precision: True} if self.on_timer and self.time is None else {}

    def notes(self, incoming: Schema) -> Iterable[str]:
        """How long the state of a key is kept."""
        if self.on_timer:
            yield f"keeps the state of a key until a function returns None; timers call {self.on_timer}()"
        else:
            yield bound_of_keys(self.ttl)

    def remembered(self, incoming: Schema) -> dict[str, Any]:
        """Keys and time, the state's type and code; the fields of events that wait."""
        function = self._function
        state = {"code": function.version, "state": format_type(function.state)} if function is not None else {}
        events = {f"{OPTIONAL}{f.name}": format_type(f.type) for f in visible(incoming)} if self.time else {}
        timers = {} if self._on_timer is None else {"timers": self._on_timer.version}
        return {**super().remembered(incoming), **state, "ttl": None if self.ttl is None else str(self.ttl), **timers, **events}

    def operator(self, incoming: Schema) -> Operator:
        """Calls of the function."""
        from etl.state.keyed.function_calls import FunctionCalls
        from etl.state.keyed.time_to_live import TimeToLive
        from etl.state.keyed.timers import Timers

        assert self._function is not None
        ttl = TimeToLive(None if self.ttl is None else self.ttl // MICROSECOND)
        fields, waits = self.fields(incoming), self.time is not None
        timers = None
        if self._on_timer is not None:
            timers = Timers(self._on_timer, self.timer_limit // MICROSECOND, self.keys, self.time or "")
        return FunctionCalls(fields, self.keys, self.event_time()[0], waits, self._function, visible(incoming), ttl, timers)
