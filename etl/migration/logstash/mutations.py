"""The filter mutate of Logstash, whose operations have a fixed order."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

from etl.expressions.quoting import quoted_text
from etl.migration.draft import Draft, NoCounterpartError
from etl.migration.ingest.painless.sql_methods import appended
from etl.migration.logstash.configuration import pairs
from etl.migration.logstash.references import field_name, interpolated
from etl.migration.values import (
    FALSE,
    NUMBER,
    TEXT,
    TRUTH,
    WHOLE,
    Value,
    as_type,
    both,
    call,
    choose,
    is_null,
    negation,
    of_each,
    split_literal,
    text_value,
)

if TYPE_CHECKING:
    from etl.migration.logstash.filter_plugin import Filter
    from etl.migration.translated import TranslatedSteps


def add_field(draft: Draft, name: str, value: Any, where: Value | None) -> None:
    """Set a field; a field that there is becomes a list with the further value."""
    target = field_name(name)
    before = draft.field(target)
    for one in value if isinstance(value, list) else [value]:
        made = interpolated(draft, one)
        after = made if before.is_null else appended(as_type(before, TEXT) if not before.is_array else before, made)
        draft.set({target: choose(where, after, draft.field(target))})
        before = draft.field(target)


def _names(value: Any) -> Iterator[str]:
    yield from (field_name(name) for name in (value if isinstance(value, list) else [value]))


def _pairs(value: Any) -> Iterator[tuple[str, Any]]:
    yield from ((field_name(name), one) for name, one in pairs(value))


def _coerce(steps: TranslatedSteps, value: Any, where: Value | None) -> None:
    for name, default in _pairs(value):
        before = steps.draft.field(name)
        if not before.is_null:
            missing = both(where, is_null(before))
            steps.draft.set({name: choose(missing, as_type(interpolated(steps.draft, default), before.type), before)})


def _rename(steps: TranslatedSteps, value: Any, where: Value | None) -> None:
    draft = steps.draft
    where = draft.keep(where)
    for old, new in _pairs(value):
        target = field_name(str(new))
        names = draft.under(old) or [old]
        draft.field(old)
        moved = {name: target + name[len(old) :] for name in names if name in draft.types}
        for name, to in moved.items():
            if to in draft.types and to != name:  # the old value is replaced
                draft.set({to: choose(both(where, negation(is_null(draft.field(name)))), draft.field(name), draft.field(to))})
                draft.drop([name], where)
            elif to != name:
                draft.rename({name: to}, where)


def _update(steps: TranslatedSteps, value: Any, where: Value | None) -> None:
    for name, text in _pairs(value):
        before = steps.draft.field(name)
        if not before.is_null:
            there = both(where, negation(is_null(before)))
            steps.draft.set({name: choose(there, interpolated(steps.draft, text), before)})


def _replace(steps: TranslatedSteps, value: Any, where: Value | None) -> None:
    for name, text in _pairs(value):
        steps.draft.set({name: choose(where, interpolated(steps.draft, text), steps.draft.field(name))})


_TYPES = {"integer": WHOLE, "float": NUMBER, "string": TEXT, "boolean": TRUTH}

_LEADING_NUMBER = {
    WHOLE: r"^\s*([+-]?[0-9]+)",
    NUMBER: r"^\s*([+-]?(?:[0-9]+(?:\.[0-9]+)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?)",
}
"""What Ruby's ``to_i`` and ``to_f`` read of a text; without it the number is 0."""


def _convert(steps: TranslatedSteps, value: Any, where: Value | None) -> None:
    for name, named in _pairs(value):
        source = steps.draft.field(name)
        type_ = _TYPES.get(str(named).removesuffix("_eu"))
        if type_ is None or str(named) in ("string_eu", "boolean_eu"):
            raise NoCounterpartError(f"the type {named!r}")
        if source.is_null:
            continue
        thousands = "." if str(named).endswith("_eu") else ","
        made = of_each(partial(_converted, type_=type_, thousands=thousands), source)
        before = steps.draft.field(name)
        steps.draft.set({name: choose(where, made, as_type(before, made.type) if where is not None else before)})


def _converted(value: Value, type_: str, thousands: str) -> Value:
    """One value in another type, as Logstash's ``convert`` reads it."""
    if type_ == TRUTH and value.type != TRUTH:
        text = f"lower({as_type(value, TEXT).sql})"
        words = f"case when {text} in ('true', 't', 'yes', 'y', '1', '1.0') then true"
        return Value(f"{words} when {text} in ('false', 'f', 'no', 'n', '0', '0.0', '') then false end", TRUTH, value.reads)
    if value.type == TEXT and type_ in _LEADING_NUMBER:
        digits = f"replace({value.sql}, '{thousands}', '')"
        if thousands == ".":
            digits = f"replace({digits}, ',', '.')"
        number = f"regexp_extract({digits}, {quoted_text(_LEADING_NUMBER[type_])}, 1)"
        return Value(f"case when {number} = '' then 0 else try_cast({number} as {type_}) end", type_, value.reads)
    return as_type(value, type_)


def _gsub(steps: TranslatedSteps, value: Any, where: Value | None) -> None:
    items = value if isinstance(value, list) else []
    for name, pattern, text in zip(items[::3], items[1::3], items[2::3], strict=False):
        replacement = re.sub(r"\\(\d)", r"$\1", str(text).replace("$", "\\$"))
        options = {"field": field_name(name), "pattern": str(pattern), "replacement": replacement, "ignore_missing": True}
        steps.apply("gsub", {**options, "ignore_failure": True}, where)


def _of_each(processor: str) -> Callable[[TranslatedSteps, Any, Value | None], None]:
    def run(steps: TranslatedSteps, value: Any, where: Value | None) -> None:
        for name in _names(value):
            if not steps.draft.field(name).is_null:
                steps.apply(processor, {"field": name, "ignore_missing": True, "ignore_failure": True}, where)

    return run


def _capitalize(steps: TranslatedSteps, value: Any, where: Value | None) -> None:
    for name in _names(value):
        source = steps.draft.field(name)
        if not source.is_null:
            made = f"concat(upper(left({source.sql}, 1)), lower(substring({source.sql}, 2)))"
            steps.draft.set({name: choose(where, Value(made, TEXT, source.reads), source)})


def _split(steps: TranslatedSteps, value: Any, where: Value | None) -> None:
    for name, separator in _pairs(value):
        source = steps.draft.field(name)
        if source.type == TEXT:
            made = split_literal(source, str(separator))
            steps.draft.set({name: choose(where, made, source)})


def _join(steps: TranslatedSteps, value: Any, where: Value | None) -> None:
    for name, separator in _pairs(value):
        source = steps.draft.field(name)
        if source.is_array:
            made = call("array_join", [as_type(source, "array<string>"), text_value(str(separator))], TEXT)
            steps.draft.set({name: choose(where, made, source)})


def _merge(steps: TranslatedSteps, value: Any, where: Value | None) -> None:
    for target, names in _pairs(value):
        for name in _names(names):
            added, before = steps.draft.field(name), steps.draft.field(target)
            if not added.is_null:
                steps.draft.set({target: choose(where, appended(before, added), before)})


def _copy(steps: TranslatedSteps, value: Any, where: Value | None) -> None:
    for name, target in _pairs(value):
        to = field_name(str(target))
        for one in steps.draft.under(name) or [name]:
            source = steps.draft.field(one)
            if not source.is_null:
                new = to + one[len(name) :]
                there = both(where, negation(is_null(source)))
                steps.draft.set({new: choose(there if new in steps.draft.types else where, source, steps.draft.field(new))})


MUTATIONS: Mapping[str, Callable[[TranslatedSteps, Any, Value | None], None]] = {
    "coerce": _coerce,
    "rename": _rename,
    "update": _update,
    "replace": _replace,
    "convert": _convert,
    "gsub": _gsub,
    "uppercase": _of_each("uppercase"),
    "capitalize": _capitalize,
    "lowercase": _of_each("lowercase"),
    "strip": _of_each("trim"),
    "split": _split,
    "join": _join,
    "merge": _merge,
    "copy": _copy,
}
"""Operations of mutate in the order in which Logstash executes them."""


def mutate(one: Filter) -> Value | None:
    if one.where == FALSE:
        return FALSE
    where = one.steps.draft.keep(one.where) if len(one.options) > 1 else one.where
    for name, run in MUTATIONS.items():
        if (value := one.option(name)) is not None:
            try:
                run(one.steps, value, where)
            except NoCounterpartError as error:
                one.left.append((name, str(error)))
    return where
