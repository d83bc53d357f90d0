"""Random steps with state: the options that a schema cannot tell, such as aggregates, patterns and entries of `emit`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from random_expressions import condition, expression

from etl.api import Schema
from etl.steps.joining.join_fields import JoinedFields

if TYPE_CHECKING:
    from random_pipelines import Maker

Options = dict[str, Any]

DURATIONS = ("500ms", "1s", "30s", "1m", "10m", "1h", "1d")
TIMESTAMP = pa.timestamp("us", "UTC")
_MORE = {
    **dict.fromkeys(("collect", "collect_set", "top", "approx_top"), ", 5"),
    **dict.fromkeys(("percentile", "approx_percentile"), ", 0.5"),
    "histogram": ", [0.5, 1, 10]",
}
"""What follows the argument of an aggregate."""
_NUMBERS = ("sum", "avg", "percentile", "approx_percentile", "variance", "stddev", "histogram", "correlation")
_USUAL = ("count(*)", "count", "sum", "avg", "min", "max", "first", "last", "collect", "count distinct")
_SELDOM = (
    *("count_if", "approx_count_distinct", "percentile", "approx_percentile", "variance", "stddev", "mode", "collect_set"),
    *("top", "approx_top", "histogram", "correlation", "min_by", "max_by", "per_second"),
)
_OVER = (
    "count(*)",
    "count",
    "sum",
    "avg",
    "min",
    "max",
    "first",
    "last",
    "lag",
    "count distinct",
    "is_new",
    "count_if",
    "per_second",
)


def _goes_by_time(maker: Maker, fields: Schema) -> bool:
    """Whether a step has an event time: mostly where there is one."""
    return maker.maybe(0.9 if any(one.type == TIMESTAMP for one in fields) else 0.05)


def window(maker: Maker, fields: Schema) -> Options:
    """A window of any shape, with any `emit`."""
    chance = maker.chance
    shape = ("size", "slide", "step", "gap", "aggregates", "having", "emit", "emit_reason", "time")
    made = maker.options("step", "window", fields, 0.3, shape) | _shape(maker, fields)
    if maker.maybe(0.6):
        made["time"] = maker.field(fields, TIMESTAMP)
    made["aggregates"] = {maker.new(): _aggregate(maker, fields) for _ in range(chance.randint(1, 3))}
    names = list(made["aggregates"])
    if maker.maybe(0.3):
        made["having"] = _of_result(maker, names)
    if maker.maybe(0.4):
        kinds = chance.sample(("on_close", "on_change", "every", "late", "when"), chance.choice((1, 1, 2, 3)))
        entries = [_entry(maker, names, kind) for kind in kinds]
        made["emit"] = entries if len(entries) > 1 or maker.maybe(0.3) else entries[0]
        if maker.maybe(0.3):
            made["emit_reason"] = maker.new()
    return made


def _shape(maker: Maker, fields: Schema) -> Options:
    chance = maker.chance
    size = chance.choice(DURATIONS)
    below = DURATIONS[: DURATIONS.index(size) + 1]
    kind = chance.choice(
        ("size", "size", "size", "slide", "slide", "step", "gap", "gap", "sizes", "size of field", "gap of field")
    )
    if kind in ("slide", "step"):
        return {"size": size, kind: chance.choice(below)}
    if kind == "sizes":
        return {"size": chance.sample(DURATIONS, chance.randint(1, 3))}
    if kind.endswith("field"):
        length = {"field": maker.field(fields, pa.int64()), "default": chance.choice(below), "max": size}
        return {kind.split()[0]: length}
    return {kind: size}


def _entry(maker: Maker, names: list[str], kind: str) -> Any:
    """An entry of `emit`."""
    chance = maker.chance
    if kind == "every":
        return {"every": chance.choice(DURATIONS)} | ({"groups": chance.choice(("all", "changed"))} if maker.maybe(0.4) else {})
    if kind == "late":
        late: Options = {"for": chance.choice(DURATIONS)}
        late |= {"every": chance.choice(DURATIONS)} if maker.maybe(0.4) else {}
        return {"late": late | ({"as": chance.choice(("corrected", "separate"))} if maker.maybe(0.5) else {})}
    if kind == "when":
        return {"when": _of_result(maker, names)} | ({"again_after": chance.choice(DURATIONS)} if maker.maybe(0.4) else {})
    return kind


def _of_result(maker: Maker, names: list[str]) -> str:
    """A condition on a result."""
    return f"{maker.chance.choice(names)} " + maker.chance.choice(("> 3", "is not null", "= 'x'"))


def _aggregate(maker: Maker, fields: Schema, of_over: bool = False) -> str:
    chance = maker.chance
    name = chance.choice(_OVER if of_over else _SELDOM if maker.maybe(0.5) else _USUAL)
    if name == "count(*)":
        return name
    if name == "per_second":
        return chance.choice(("per_second(count(*))", f"per_second(sum({expression(chance, fields, 'int', depth=1)}))"))
    of = (
        condition(chance, fields)
        if name == "count_if"
        else expression(chance, fields, "int" if name in _NUMBERS else None, depth=1)
    )
    more = _MORE.get(name, "")
    if name in ("min_by", "max_by", "correlation"):
        more = ", " + expression(chance, fields, "int", depth=1)
    if name == "lag" and maker.maybe(0.4):
        more = f", {chance.randint(1, 4)}"
    where = f" filter (where {condition(chance, fields)})" if maker.maybe(0.15) else ""
    return (f"count(distinct {of})" if name == "count distinct" else f"{name}({of}{more})") + where


def _keyed(maker: Maker, fields: Schema, kind: str, without: tuple[str, ...] = ()) -> Options:
    """A step with keys, mostly by an event time that there is."""
    made = maker.options("step", kind, fields, 0.3, (*without, "time"))
    return made | ({"time": maker.field(fields, TIMESTAMP)} if _goes_by_time(maker, fields) else {})


def over(maker: Maker, fields: Schema) -> Options:
    """Running values."""
    made = _keyed(maker, fields, "over", ("aggregates",))
    return made | {"aggregates": {maker.new(): _aggregate(maker, fields, True) for _ in range(maker.chance.randint(1, 3))}}


def top(maker: Maker, fields: Schema) -> Options:
    """The best events by an expression."""
    return _keyed(maker, fields, "top", ("by",)) | {"by": expression(maker.chance, fields, depth=1)}


def dedupe(maker: Maker, fields: Schema) -> Options:
    """The first or last event of a key."""
    return _keyed(maker, fields, "dedupe")


def throttle(maker: Maker, fields: Schema) -> Options:
    """The first events of a span."""
    return _keyed(maker, fields, "throttle")


def suppress(maker: Maker, fields: Schema) -> Options:
    """An event, and how many there were."""
    return _keyed(maker, fields, "suppress")


def sequence(maker: Maker, fields: Schema) -> Options:
    """A pattern of two or three events."""
    chance = maker.chance
    made = _keyed(maker, fields, "sequence", ("events", "pattern", "fields", "where"))
    made["events"] = {name: condition(chance, fields) for name in ("a", "b", "c")}
    made["pattern"] = chance.choice(
        (
            "a then b",
            "a{2,} then b",
            "a+ then next b",
            "a then not c then b",
            "a then not b",
            "a{1,3} consecutive then b? then c",
            "(a then b | c)+ then next a",
            "a then (b | c){2,}+ consecutive then c",
        )
    )
    made["events"] = {
        name: one
        for name, one in made["events"].items()
        if name in made["pattern"].replace("then", "").replace("consecutive", "").replace("next", "")
    }
    if maker.maybe(0.6) and fields.names:
        made["fields"] = {maker.new(): chance.choice(("{}", "first({})")).format(f"a.{maker.field(fields)}")}
    if maker.maybe(0.3) and fields.names:
        name = maker.field(fields)
        made["where"] = f"{'b' if 'b' in made['events'] else 'a'}.{name} {chance.choice(('=', '<>', '>'))} a.{name}"
    return made


def correlate(maker: Maker, fields: Schema) -> Options:
    """A Sigma correlation over rules of its own."""
    chance, rules = maker.chance, maker.own_rules(fields)
    times = [one.name for one in fields if pa.types.is_timestamp(one.type)]
    if not times and not maker.maybe(0.1):
        return {"type": "set", "fields": {"at": "current_timestamp()"}}
    names = [rule["name"] for rule in rules]
    kind = chance.choice(("event_count", "event_count", "value_count", "temporal", "temporal_ordered", "value_sum", "value_avg"))
    made: Options = {"type": kind, "rules": names[: chance.randint(1, 3)], "timespan": chance.choice(("10s", "1m", "1h"))}
    if maker.maybe(0.7):
        made["group-by"] = maker.some(fields.names, 2)
    if not kind.startswith("temporal"):
        made["condition"] = {chance.choice(("gte", "gt", "lt", "eq")): chance.randint(1, 5)}
    if kind.startswith("value"):
        made["condition"]["field"] = maker.field(fields, pa.int64() if kind != "value_count" else None)
    step = maker.options("step", "correlate", fields, 0.2, ("files", "tables", "fields", "placeholders", "rules", "correlations"))
    return step | {"time": maker.field(fields, TIMESTAMP), "rules": rules, "correlations": [{"title": "A", "correlation": made}]}


def join(maker: Maker, sides: Mapping[str, Schema]) -> Options:
    """A join of two inputs with these fields, or of one with itself."""
    chance, names = maker.chance, list(sides)
    left, right = sides[names[0]], sides[names[-1]]
    drawn = ("left", "right", "on", "time", "right_time", "where", "within", "before", "after", "shift", "prefix")
    made = maker.options("step", "join", left, 0.3, drawn)
    if len(names) == 1 or maker.maybe(0.2):
        made |= {"left": names[0], "right": names[-1]}
    both = [one.name for one in left if one.name in right.names]
    made["on"] = maker.some(both, 2) if both and maker.maybe(0.6) else {maker.field(left): maker.field(right)}
    times = [{one.name for one in side if one.type == TIMESTAMP} for side in (left, right)]
    if maker.maybe(0.9 if all(times) else 0.05):
        made["time"] = maker.field(left, TIMESTAMP)
        made |= {"right_time": maker.field(right, TIMESTAMP)} if made["time"] not in times[1] else {}
    if made.get("match") == "latest":
        made |= {"kind": chance.choice(("inner", "left"))} | ({"before": chance.choice(DURATIONS)} if maker.maybe(0.5) else {})
    else:
        bounds = chance.choice((("within",), ("within",), ("before",), ("after",), ("before", "after")))
        made |= {bound: chance.choice(DURATIONS) for bound in bounds}
        made |= {"shift": chance.choice(DURATIONS)} if maker.maybe(0.2) else {}
    if maker.maybe(0.3):
        made["prefix"] = chance.choice(("r_", "right.", "other."))
    if maker.maybe(0.4):
        made["where"] = condition(chance, JoinedFields({}, made.get("prefix", "right."), left, right).schema)
    return made


STATEFUL: Mapping[str, Callable[[Any, Schema], Options]] = {
    "window": window, "dedupe": dedupe, "throttle": throttle, "suppress": suppress, "top": top, "over": over,
    "sequence": sequence, "correlate": correlate,
}  # fmt: skip
