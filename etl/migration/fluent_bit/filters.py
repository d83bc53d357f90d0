"""Filters of Fluent Bit → steps."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from etl.migration.comparisons import equal, matching
from etl.migration.draft import Draft, NoCounterpartError, clean_name
from etl.migration.fluent_bit.configuration import Section
from etl.migration.fluent_bit.parsers import key_name
from etl.migration.translated import TranslatedSteps
from etl.migration.values import FALSE, Value, both, choose, either, is_null, negation, text_value

if TYPE_CHECKING:
    from etl.migration.fluent_bit.importer import FluentBitImport


def _words(value: str, count: int) -> list[str]:
    found = value.split(None, count - 1)
    if len(found) < count:
        raise NoCounterpartError(f"{value!r} has {len(found)} words, and needs {count}")
    return found


def _parser(run: FluentBitImport, one: Section, steps: TranslatedSteps) -> None:
    def says(name: str) -> bool:
        return one.get(name).lower() in ("on", "true", "yes")

    reserve, preserve = says("reserve_data"), says("preserve_key")
    run.parse(steps, key_name(one.get("key_name", "log")), one.all("parser"), reserve=reserve, preserve=preserve)


def _grep(run: FluentBitImport, one: Section, steps: TranslatedSteps) -> None:
    """Every `regex` must match, and no `exclude`; with `logical_op or` one of them."""
    draft, any_ = steps.draft, one.get("logical_op").lower() == "or"
    condition: Value | None = None
    for kind in ("regex", "exclude"):
        found: Value | None = None
        for rule in one.all(kind):
            name, pattern = _words(rule, 2)
            good = matching(draft.field(key_name(name)), pattern)
            good = good if kind == "regex" else negation(good)
            if found is None:
                found = good
            elif any_ == (kind == "regex"):
                found = either(found, good) if kind == "regex" else both(found, good)
            else:
                found = both(found, good)
        condition = found if condition is None else both(condition, found)
    if condition is None:
        raise NoCounterpartError("neither regex nor exclude")
    steps.apply("drop", {}, negation(condition))


def _conditions(one: Section, draft: Draft) -> Value | None:
    where: Value | None = None
    for text in one.all("condition"):
        kind, *rest = text.split(None, 2)
        value = draft.field(key_name(rest[0])) if rest else None
        match kind.lower(), len(rest):
            case "key_exists", 1:
                found = negation(is_null(value)) if value is not None else FALSE
            case "key_does_not_exist", 1:
                found = is_null(value) if value is not None else FALSE
            case "key_value_equals", 2:
                found = equal(value, text_value(rest[1])) if value is not None else FALSE
            case "key_value_does_not_equal", 2:
                found = negation(equal(value, text_value(rest[1]))) if value is not None else FALSE
            case "key_value_matches", 2:
                found = matching(value, rest[1]) if value is not None else FALSE
            case "key_value_does_not_match", 2:
                found = negation(matching(value, rest[1])) if value is not None else FALSE
            case _:
                raise NoCounterpartError(f"the condition {text!r}")
        where = both(where, found)
    return where


def _modify(run: FluentBitImport, one: Section, steps: TranslatedSteps) -> None:
    """Rules in their order; ``add`` and ``rename`` leave a field as it is that is there."""
    draft = steps.draft
    where = draft.keep(_conditions(one, draft))
    if where == FALSE:
        return
    for rule, value in one.entries:
        match rule:
            case "set" | "add":
                name, text = _words(value, 2)
                before = draft.field(key_name(name))
                missing = where if rule == "set" else both(where, is_null(before))
                draft.set({key_name(name): choose(missing, text_value(text), before)})
            case "rename" | "hard_rename":
                name, to = map(key_name, _words(value, 2))
                draft.field(name)
                if rule == "hard_rename" and where is None:
                    draft.drop([to])
                if name in draft.types:
                    draft.rename({name: to}, where)
            case "copy" | "hard_copy":
                name, to = map(key_name, _words(value, 2))
                before, source = draft.field(to), draft.field(name)
                free = where if rule == "hard_copy" else both(where, is_null(before))
                draft.set({to: choose(free, source, before)})
            case "remove":
                name = key_name(value)
                draft.drop([name, *draft.under(name)], where)
            case "remove_wildcard" | "remove_regex":
                names = [n for n in draft.types if _fits(rule, value, n) and n not in draft.temporary]
                draft.drop(names, where)
            case "name" | "match" | "match_regex" | "condition" | "alias":
                pass
            case _:
                steps.leave(one.location, f"filter modify.{rule}", "a rule without a counterpart")
                run.report.total += 1


def _fits(rule: str, pattern: str, name: str) -> bool:
    if rule == "remove_regex":
        try:
            return re.search(pattern, name) is not None
        except re.error:
            return False
    return name.startswith(pattern.rstrip("*"))


def _record_modifier(run: FluentBitImport, one: Section, steps: TranslatedSteps) -> None:
    draft = steps.draft
    draft.drop([key_name(name) for name in one.all("remove_key")])
    if allowed_names := {key_name(name) for option in ("allowlist_key", "whitelist_key") for name in one.all(option)}:
        for name in allowed_names:
            draft.field(name)
        draft.drop([name for name in draft.types if name not in allowed_names and name not in draft.temporary])
    for record in one.all("record"):
        name, text = _words(record, 2)
        draft.set({key_name(name): text_value(text)})


def _nest(run: FluentBitImport, one: Section, steps: TranslatedSteps) -> None:
    draft = steps.draft
    added, removed = one.get("add_prefix"), one.get("remove_prefix")
    if one.get("operation").lower() == "lift":
        under = f"{key_name(one.get('nested_under'))}."
        names = {name: name.removeprefix(under) for name in draft.types if name.startswith(under)}
    else:
        wildcards = one.all("wildcard")
        chosen = [name for name in draft.types if any(_fits("wildcard", text, name) for text in wildcards)]
        names = {name: name for name in chosen if name not in draft.temporary}
    for name, new in names.items():
        new = f"{clean_name(added)}{new.removeprefix(removed)}"
        nested = one.get("operation").lower() != "lift"
        draft.rename({name: f"{key_name(one.get('nest_under'))}.{new}" if nested else new})


FILTERS: Mapping[str, Callable[[FluentBitImport, Section, TranslatedSteps], None]] = {
    "parser": _parser,
    "grep": _grep,
    "modify": _modify,
    "record_modifier": _record_modifier,
    "nest": _nest,
}

NO_COUNTERPART: Mapping[str, str] = {
    "aws": "metadata of the host are not requested; a `set` with a constant does the same",
    "geoip2": "the parser `geoip` with the file of places",
    "kubernetes": "metadata of pods are not requested; a `lookup` in a table does the same",
    "log_to_metrics": "the step `window` counts",
    "lua": "code in Lua; write it as a function in Python, which the step `python` calls",
    "multiline": "the option `multiline` of the source joins lines",
    "rewrite_tag": "tags are streams here: a stream with `from` and a `filter` takes such events",
    "throttle": "the step `throttle`",
    "type_converter": "a step `convert`",
}
"""Filters without a counterpart, and what to do instead."""
