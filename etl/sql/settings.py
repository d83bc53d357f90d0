"""``SET 'key' = 'value'``: which settings of Flink and of this tool have an effect."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from difflib import get_close_matches
from typing import Any

import yaml

from etl.sql.compiled import CompiledScript
from etl.sql.expressions import duration
from etl.sql.functions.own_functions import JAVA_FUNCTIONS
from etl.sql.relation import FOR_EVER, Settings
from etl.sql.statements import Delay, Option, Reset, ScriptError

_SECONDS = {"d": 86400, "day": 86400, "h": 3600, "hour": 3600, "min": 60, "minute": 60, "m": 60, "s": 1, "sec": 1, "second": 1}

_FIRES = tuple(f"table.exec.emit.{kind}-fire.{key}" for kind in ("early", "late") for key in ("enabled", "delay"))
"""Settings that say what EMIT says of all queries after them."""

_QUERY: Mapping[str, Callable[[Settings, Option], Settings]] = {
    "table.exec.state.ttl": lambda settings, option: replace(settings, ttl=flink_duration(option) or FOR_EVER),
    "table.exec.emit.allow-lateness": lambda settings, option: replace(settings, late=flink_seconds(option)),
    "execution.runtime-mode": lambda settings, option: replace(settings, is_batch=_is_batch(option)),
    **dict.fromkeys(_FIRES, lambda settings, option: _with_fire(settings, option)),
}
"""Settings of the queries after them."""

_RUN: Mapping[str, tuple[str, Callable[[Option], Any]]] = {
    "parallelism.default": ("parallelism", lambda option: _value(option.value)),
    "table.exec.resource.default-parallelism": ("parallelism", lambda option: _value(option.value)),
    "execution.checkpointing.interval": ("trigger", lambda option: flink_duration(option) or "500ms"),
}
"""Settings that are options of the run."""

_IDLE = "table.exec.source.idle-timeout"
_HAS_IDLE = ("window", "dedupe", "over", "top", "join", "sequence")
"""Steps that wait for silent sources, unless their option ``idle`` says how long."""

_OWN = ("name", "description", "run", "dead_letters")
"""Keys of a pipeline file that are settings here: ``SET 'run.trigger' = '1s'``."""

_WITHOUT_EFFECT = (
    "table.exec.mini-batch.",
    "table.optimizer.",
    "table.exec.async-",
    "table.exec.sink.",
    "table.exec.source.cdc-",
    "state.",
    "execution.checkpointing.",
    "execution.state-recovery.",
    "restart-strategy",
    "taskmanager.",
    "jobmanager.",
    "sql-client.",
    "table.sql-dialect",
    "table.dml-sync",
    "table.plan.",
    "pipeline.",
)
"""Beginnings of settings that tune Flink, which the engine here does not need."""


_OF_QUERIES = {"table.exec.state.ttl": "ttl", "table.exec.emit.allow-lateness": "late", "execution.runtime-mode": "is_batch"}
"""Settings of queries → attributes of `Settings`, but for `_FIRES`."""


def reset_setting(statement: Reset, settings: Settings, compiled: CompiledScript) -> Settings:
    """The settings of queries after RESET; a warning for one that is of the whole run."""
    names = [statement.name] if statement.name else list(_QUERY)
    if statement.name and statement.name not in _QUERY:
        message, hint = f"RESET of {statement.name!r} has no effect", "it is a setting of the whole script: leave out the SET"
        compiled.warnings.append(ScriptError("no-effect", message, statement.at, hint))
        return settings
    before = {_OF_QUERIES[name]: getattr(Settings(), _OF_QUERIES[name]) for name in names if name in _OF_QUERIES}
    fires = {name: option for name, option in settings.fires.items() if name not in names}
    return replace(settings, **before, fires=fires)


def apply_setting(option: Option, settings: Settings, compiled: CompiledScript) -> Settings:
    """The settings of queries after SET; those of the run become part of the pipeline. Raises ScriptError."""
    name = option.name
    if change := _QUERY.get(name):
        return change(settings, option)
    if name == _IDLE:
        compiled.idle = flink_duration(option)
    elif name == JAVA_FUNCTIONS:
        return settings  # read before the statements
    elif name == "pipeline.name":
        _put(compiled, ("name",), option.value, option)
    elif name == "table.local-time-zone":
        if option.value.upper() not in ("UTC", "GMT", "Z", "ETC/UTC"):
            raise ScriptError(
                "unsupported-sql", "times are in UTC", option.value_at, "convert them: from_utc_timestamp(t, 'Asia/Tokyo')"
            )
    elif run := _RUN.get(name):
        _put(compiled, ("run", run[0]), run[1](option), option)
    elif name.split(".")[0] in _OWN:
        _put(compiled, tuple(name.split(".")), option.value if name in ("name", "description") else _value(option.value), option)
    elif not name.startswith(_WITHOUT_EFFECT):
        known = [*_QUERY, _IDLE, *_RUN, JAVA_FUNCTIONS, "pipeline.name", "table.local-time-zone"]
        near = get_close_matches(name, known, 1)
        hint = f"is {near[0]!r} meant?" if near else f"these have one: {', '.join(known)}, run.*"
        compiled.warnings.append(ScriptError("unknown-option", f"the setting {name!r} has no effect", option.at, hint))
    return settings


def fire_delays(settings: Settings) -> tuple[Delay, ...]:
    """What `table.exec.emit.early-fire.*` and `late-fire.*` say, as EMIT says it. Raises ScriptError."""
    found = []
    for kind in ("early", "late"):
        switch, delay = (settings.fires.get(f"table.exec.emit.{kind}-fire.{key}") for key in ("enabled", "delay"))
        if switch is None or switch.value.lower() != "true":
            continue
        if delay is None:
            hint = f"SET 'table.exec.emit.{kind}-fire.delay' = '10 s', or '0 s' for a result with each change"
            raise ScriptError("missing-option", f"{switch.name!r} needs a delay", switch.at, hint)
        if kind == "late" and not settings.late:
            hint = "SET 'table.exec.emit.allow-lateness' = '1 h'"
            raise ScriptError("missing-option", f"{switch.name!r} needs the time for which events may be late", switch.at, hint)
        found.append(Delay(flink_seconds(delay), kind == "early", delay.at))
    return tuple(found)


def _with_fire(settings: Settings, option: Option) -> Settings:
    """The settings with one of `_FIRES`. Raises ScriptError."""
    if option.name.endswith(".delay"):
        flink_seconds(option)
    elif option.value.lower() not in ("true", "false"):
        raise ScriptError("invalid-value", f"{option.value!r} is neither true nor false", option.value_at)
    return replace(settings, fires={**settings.fires, option.name: option})


def add_idle(compiled: CompiledScript) -> None:
    """Give all steps that wait for silent sources the time that is set for it."""
    if compiled.idle is None:
        return
    for stream in compiled.value["streams"].values():
        for step in stream["steps"]:
            if step["type"] in _HAS_IDLE:
                step.setdefault("idle", compiled.idle)


def _is_batch(option: Option) -> bool:
    mode = option.value.lower()
    if mode not in ("batch", "streaming", "automatic"):
        raise ScriptError("invalid-value", f"{option.value!r} is not a mode", option.value_at, "it is 'streaming' or 'batch'")
    return mode == "batch"


def _value(text: str) -> Any:
    """A value in YAML's notation: a number, a list, a text."""
    try:
        return yaml.safe_load(text)
    except (yaml.YAMLError, ValueError, RecursionError):
        return text


def _put(compiled: CompiledScript, path: tuple[str, ...], value: Any, option: Option) -> None:
    node = compiled.value
    for key in path[:-1]:
        found = node.setdefault(key, {})
        if not isinstance(found, dict):
            raise ScriptError("duplicate-name", f"{key!r} is set already", option.at, "set it once")
        node = found
    node[path[-1]] = value
    for length in range(1, len(path) + 1):
        compiled.locations[path[:length]] = option.at, option.value_at


def flink_seconds(option: Option) -> float:
    """``1 d``, ``10 min``, ``3600 s`` or milliseconds → seconds. Raises ScriptError."""
    text = option.value
    found = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([a-z]*)\s*", text.lower())
    unit = found[2] if found else ""
    unit = unit.rstrip("s") if len(unit) > 2 else unit
    if found and unit in ("", "ms", "milli", "millisecond"):
        return float(found[1]) / 1000
    if found is None or unit not in _SECONDS:
        raise ScriptError("invalid-value", f"{text!r} is not a duration", option.value_at, "write '1 d', '10 min' or '30 s'")
    return float(found[1]) * _SECONDS[unit]


def flink_duration(option: Option) -> str | None:
    """The duration as an option writes it, None for 0."""
    seconds = flink_seconds(option)
    return duration(seconds) if seconds else None
