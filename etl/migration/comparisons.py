"""Comparisons of the tools that are imported: a missing field equals nothing; unlike types are compared as texts or numbers."""

from __future__ import annotations

from etl.migration.values import (
    FALSE,
    NUMBER,
    TEXT,
    TRUE,
    TRUTH,
    Value,
    as_type,
    both,
    call,
    common_type,
    either,
    is_null,
    negation,
    reads_of,
    text_value,
)


def equal(one: Value, other: Value) -> Value:
    """Whether two values are the same."""
    if one.is_null or other.is_null:
        return is_null(other if one.is_null else one)
    if one.is_array or other.is_array:
        one, other = (one, other) if one.is_array else (other, one)
        return FALSE if not other.is_array else Value(f"{one.sql} = {other.sql}", TRUTH, reads_of([one, other]))
    type_ = common_type(one.type, other.type)
    one, other = as_type(one, type_), as_type(other, type_)
    return Value(f"{one.sql} {'<=>' if one.reads and other.reads else '='} {other.sql}", TRUTH, reads_of([one, other]))


def ordered(operator: str, one: Value, other: Value) -> Value:
    """``<``, ``<=``, ``>`` or ``>=``; as numbers if one of them is one."""
    if one.is_null or other.is_null:
        return FALSE
    type_ = NUMBER if one.is_number != other.is_number else common_type(one.type, other.type)
    one, other = (x if x.is_number and type_ == NUMBER else as_type(x, type_) for x in (one, other))
    return Value(f"{one.sql} {operator} {other.sql}", TRUTH, reads_of([one, other]))


def matching(value: Value, pattern: str) -> Value:
    """Whether a text, or an item of a list, has a match of a regular expression."""
    return FALSE if value.is_null else call("regexp_like", [as_type(value, TEXT), text_value(pattern)], TRUTH)


def contained(one: Value, other: Value) -> Value:
    """Whether a list has the item, or a text the part."""
    if one.is_null or other.is_null:
        return FALSE
    if other.is_array:
        return call("array_contains", [other, as_type(one, other.type[6:-1])], TRUTH)
    return call("contains", [as_type(other, TEXT), as_type(one, TEXT)], TRUTH)


def among(one: Value, items: list[Value]) -> Value:
    """Whether a value, or an item of a list of values, is one of the items."""
    if one.is_null or not items:
        return FALSE
    if one.is_array:
        found = FALSE
        for item in items:
            found = either(found, contained(item, one))
        return found
    texts = ", ".join(as_type(item, one.type).sql for item in items)
    return Value(f"{one.sql} in ({texts})", TRUTH, reads_of([one, *items]))


def exclusive(one: Value, other: Value) -> Value:
    """Whether exactly one of two conditions is true."""
    return either(both(one, negation(other)) or TRUE, both(negation(one), other) or TRUE)


def truth(value: Value) -> Value:
    """Whether a field is there, and not false."""
    if value.is_null:
        return FALSE
    return value if value.type == TRUTH else negation(is_null(value))
