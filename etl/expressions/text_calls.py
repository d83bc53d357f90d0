"""Calls of functions of texts, with and without regular expressions."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from etl.expressions import addresses, java_regex, texts
from etl.expressions import bound as b
from etl.expressions.arguments import MisuseError, as_text, no_form, text_literal, whole_literal
from etl.expressions.bound import Bound
from etl.expressions.java_regex import NoRe2FormError
from etl.expressions.widening import ATOMIC, BOOLEAN, NULL, STRING


def text_function(kernel: Callable[[Any], Any], type_: pa.DataType = STRING) -> Callable[[Bound], Bound]:
    return lambda value: b.apply(type_, kernel, as_text(value))


def substring(text: Bound, position: Bound, count: Bound | None = None) -> Bound:
    at, length = whole_literal(position), None if count is None else whole_literal(count)
    if at is None or (count is not None and length is None) or at < -_MOST_FROM_END:
        return no_form("substring() with computed or far positions", STRING)
    return b.apply(STRING, partial(texts.substring, at, length), as_text(text))


_MOST_FROM_END = 1000


def left(text: Bound, count: Bound) -> Bound:
    number = whole_literal(count)
    return (
        no_form("left() of a computed length", STRING)
        if number is None
        else b.apply(STRING, partial(texts.substring, 1, number), as_text(text))
    )


def right(text: Bound, count: Bound) -> Bound:
    number = whole_literal(count)
    if number is None:
        return no_form("right() of a computed length", STRING)
    start, stop = (-number, None) if number > 0 else (0, 0)
    return b.apply(STRING, lambda x: pc.utf8_slice_codeunits(x, start, stop), as_text(text))


def split_part(text: Bound, delimiter: Bound, index: Bound) -> Bound:
    separator, number = text_literal(delimiter), whole_literal(index)
    if separator is None or number is None:
        return no_form("split_part() with a computed delimiter or index", STRING)
    if number == 0:
        raise MisuseError("split_part() counts parts from 1, or from -1 at the end: 0 is no part")
    return b.apply(STRING, partial(texts.split_part, separator, number), as_text(text))


def replace(text: Bound, old: Bound, new: Bound | None = None) -> Bound:
    searched, given = text_literal(old), "" if new is None else text_literal(new)
    if searched is None or given is None:
        return no_form("replace() with a computed text", STRING)
    return b.apply(STRING, partial(texts.replace, searched, given), as_text(text))


def part_test(kernel: Callable[[Any, str], Any], name: str) -> Callable[[Bound, Bound], Bound]:
    def build(text: Bound, part: Bound) -> Bound:
        searched = text_literal(part)
        if searched is None:
            return no_form(f"{name}() with a computed text", BOOLEAN)
        return b.apply(BOOLEAN, lambda x: kernel(x, searched), as_text(text))

    return build


def concat(*parts: Bound) -> Bound:
    """``concat`` and ``||``: null when a part is null."""
    if any(not _is_scalar(part) for part in parts):
        return no_form("concat() of arrays or binaries", NULL)
    return b.apply(STRING, texts.concat, *map(as_text, parts)) if parts else b.literal("", STRING)


def concat_ws(separator: Bound, *parts: Bound) -> Bound:
    if any(not _is_scalar(part) for part in parts):
        return no_form("concat_ws() of arrays", STRING)
    bounds = [as_text(part) for part in (separator, *parts)]
    runs = [part.run for part in bounds if part.run is not None]

    def run(rows: Any) -> Any:
        first, *others = [evaluate(rows) for evaluate in runs]
        if not others:
            return pc.if_else(pc.is_valid(first), "", pa.scalar(None, STRING))
        return texts.concat_ws(first, *others)

    return b.lazily(STRING, run, *bounds)


def _is_scalar(value: Bound) -> bool:
    return value.type in ATOMIC or value.type == NULL


def ip_in(address: Bound, *networks: Bound) -> Bound:
    names = [text_literal(network) for network in networks]
    if None in names:
        return no_form("ip_in() with a computed network", BOOLEAN)
    try:
        inside = addresses.contains(addresses.parse_networks([name for name in names if name is not None]))
    except ValueError as error:
        raise MisuseError(str(error), "bad-network") from error
    return b.apply(BOOLEAN, inside, as_text(address))


# ── Regular expressions ─────────────────────────────────────────────────────────────────────────────────


def rlike(text: Bound, pattern: Bound) -> Bound:
    """``rlike``."""
    found = _re2(pattern, BOOLEAN)
    return (
        found
        if isinstance(found, Bound)
        else b.apply(BOOLEAN, lambda x: pc.match_substring_regex(x, found.pattern), as_text(text))
    )


def regexp_extract(text: Bound, pattern: Bound, group: Bound | None = None) -> Bound:
    number = 1 if group is None else whole_literal(group)
    found = _re2(pattern, STRING)
    if isinstance(found, Bound) or number is None:
        return found if isinstance(found, Bound) else no_form("regexp_extract() of a computed group", STRING)
    if not 0 <= number <= found.groups:
        raise MisuseError(f"the pattern has {found.groups} groups, and group {number} is asked for", "bad-regex")
    if found.repeats_group:
        return no_form("regexp_extract() with a repeated group", STRING)
    return b.apply(STRING, partial(texts.extract, found, number), as_text(text))


def regexp_replace(text: Bound, pattern: Bound, new: Bound, position: Bound | None = None) -> Bound:
    found, given = _re2(pattern, STRING), text_literal(new)
    if isinstance(found, Bound):
        return found
    if given is None or position is not None:
        return no_form("regexp_replace() with a computed replacement or a position", STRING)
    if found.nullable or found.tail or found.repeats_group:
        return no_form("regexp_replace() of a pattern that can match nothing, ends in '$' or repeats a group", STRING)
    try:
        rewrite = java_regex.replacement(given, found.groups)
    except NoRe2FormError as error:
        return no_form(str(error), STRING)
    except ValueError as error:
        raise MisuseError(f"replacement {given!r}: {error}", "bad-regex") from error
    return b.apply(STRING, lambda x: pc.replace_substring_regex(x, found.pattern, rewrite), as_text(text))


def _re2(pattern: Bound, type_: pa.DataType) -> java_regex.Re2 | Bound:
    text = text_literal(pattern)
    if text is None:
        return no_form("a computed regular expression", type_)
    try:
        found = java_regex.translate(text)
        pc.match_substring_regex(pa.nulls(1, STRING), found.pattern)
    except NoRe2FormError as error:
        return b.spark_only(f"{error} in {text!r} has no RE2 form", type_)
    except pa.ArrowInvalid:
        return b.spark_only(f"RE2 cannot take {text!r}", type_)
    except ValueError as error:
        raise MisuseError(f"{text!r} is no regular expression: {error}", "bad-regex") from error
    return found
