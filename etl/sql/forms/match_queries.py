"""The steps `sequence` and `select` → ``MATCH_RECOGNIZE``, which is compiled to both; it may lack options of the steps."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from etl.sql.forms.literals import TOKEN, identifier
from etl.sql.forms.over import ONE_KEY
from etl.sql.forms.step_queries import Step, interval
from etl.sql.relation import FOR_EVER
from etl.steps.sequences.pattern import Pattern, PatternElement, PatternItem
from etl.steps.sequences.pattern_reader import read_pattern
from etl.steps.sequences.references import OPERATOR, REFERENCE

_OPTIONS = frozenset({"type", "keys", "time", "late", "within", "events", "pattern", "where", "fields", "after_match"})
"""Options of a sequence that the clause can say."""


def count_matched(steps: Sequence[Step]) -> int:
    """The number of steps with which these begin that one clause may say; 0 if it says none."""
    kinds = [str(step.get("type")) if isinstance(step, Mapping) else "" for step in steps[:3]]
    if kinds == ["set", "sequence", "select"] and steps[0].get("fields") == {ONE_KEY: "1"}:
        return 3
    return 2 if kinds[:2] == ["sequence", "select"] else 0


def match_query(steps: Sequence[Step], rows: str) -> str | None:
    """The query of `count_matched` steps, None if there is none. ``rows``: what FROM reads."""
    *before, sequence, select = steps
    try:
        return _query(sequence, select["fields"], not before, rows)
    except (KeyError, ValueError, AttributeError, TypeError):  # options that are missing, have another type, or are not SQL's
        return None


def _query(sequence: Step, fields: Mapping[str, str], has_keys: bool, rows: str) -> str:
    if not sequence.keys() <= _OPTIONS:
        raise ValueError("an option that the clause does not have")
    keys = [str(key) for key in sequence["keys"]] if has_keys else []
    pattern, time = read_pattern(sequence["pattern"]), identifier(sequence["time"])
    measures = [
        f"{_measure(str(text), sequence, pattern, time)} AS {identifier(name)}"
        for name, text in fields.items()
        if name not in keys
    ]
    parts = [
        f"PARTITION BY {', '.join(map(identifier, keys))}" if keys else "",
        f"ORDER BY {time}",
        _listed("MEASURES", measures),
        "ONE ROW PER MATCH",
        f"AFTER MATCH {_skip(str(sequence.get('after_match', 'past_last_event')))}",
        f"PATTERN ({_pattern(pattern.items)}){_within(sequence['within'])}",
        _listed("DEFINE", list(_definitions(sequence, pattern))),
    ]
    lines = "".join(f"  {part}\n" for part in parts if part)
    return f"SELECT * FROM {rows}\nMATCH_RECOGNIZE (\n{lines})"


def _within(duration: Any) -> str:
    return "" if str(duration) == FOR_EVER else f" WITHIN {interval(duration)}"


def _listed(word: str, items: Sequence[str]) -> str:
    return f"{word}\n    " + ",\n    ".join(items) if items else ""


def _measure(text: str, sequence: Step, pattern: Pattern, time: str) -> str:
    """An expression over the fields of a match as one over variables. Raises ValueError."""
    if text == "sequence_end":
        return "MATCH_ROWTIME()"
    chosen, counts = sequence.get("fields") or {}, {f"{name}_count": name for name in pattern.names}

    def text_of(token: re.Match[str]) -> str:
        name = token["quoted"] or token["word"]
        if name is None or token["call"] is not None:
            return token[0]
        if name in chosen:
            return _value(str(chosen[name]))
        if name in ("sequence_start", "sequence_end", "events"):
            raise ValueError(f"{name} is not a measure")
        return f"COUNT({counts[name]}.{time})" if name in counts else token[0]

    return TOKEN.sub(text_of, text)


def _value(text: str) -> str:
    found = REFERENCE.fullmatch(text)
    if found is None:
        raise ValueError("not a reference")
    value = f"{found['name']}.{identifier(found['field'])}"
    return f"{found['which'].upper()}({value})" if found["which"] else value


def _skip(after: str) -> str:
    which, _, name = after.partition("(")
    if name:
        return f"SKIP TO {which.upper()} {name.removesuffix(')')}"
    return {"past_last_event": "SKIP PAST LAST ROW", "next_event": "SKIP TO NEXT ROW"}[which]


def _pattern(items: Sequence[PatternItem]) -> str:
    """The parts, which follow each other directly. Raises ValueError for parts that events stand between."""
    found = []
    for number, item in enumerate(items):
        if item.absent or item.next != bool(number) or (item.maximum != 1 and not item.consecutive):
            raise ValueError("other events may stand between the parts")
        names = item.name if isinstance(item, PatternElement) else f"({' | '.join(map(_pattern, item.alternatives))})"
        found.append(names + _quantifier(item))
    return " ".join(found)


def _quantifier(item: PatternItem) -> str:
    maximum = "" if item.maximum is None else str(item.maximum)
    counted = f"{{{item.minimum}}}" if item.minimum == item.maximum else f"{{{item.minimum},{maximum}}}"
    text = {(1, 1): "", (0, 1): "?", (1, None): "+", (0, None): "*"}.get((item.minimum, item.maximum), counted)
    return text + ("?" if item.reluctant else "")


def _definitions(sequence: Step, pattern: Pattern) -> Iterator[str]:
    compared: dict[str, list[str]] = {}
    for text in sequence.get("where") or ():
        name, condition = _comparison(str(text), pattern)
        compared.setdefault(name, []).append(condition)
    names = [*compared, *(name for name in sequence["events"] if name not in compared)]
    for name in names:
        own = str(sequence["events"][name])
        conditions = [] if own == "true" else [f"({own})" if name in compared else own]
        if conditions := [*conditions, *compared.get(name, ())]:
            yield f"{name} AS {' AND '.join(conditions)}"


def _comparison(text: str, pattern: Pattern) -> tuple[str, str]:
    """The variable that is compared with an earlier one, and the condition. Raises ValueError."""
    operator = OPERATOR.search(text)
    sides = [REFERENCE.fullmatch(one) for one in (text[: operator.start()], text[operator.end() :])] if operator else []
    if operator is None or None in sides:
        raise ValueError("not a comparison")
    left, right = (one for one in sides if one is not None)
    positions = pattern.positions
    is_left = not left["which"] if left["name"] == right["name"] else positions[left["name"]] > positions[right["name"]]
    event = left if is_left else right
    operands = [_value(side[0]) if side["name"] != event["name"] else _own(side) for side in (left, right)]
    return event["name"], f"{operands[0]} {operator[0]} {operands[1]}"


def _own(reference: re.Match[str]) -> str:
    """A field of the variable itself: ``last(A.x)`` is that of the row before."""
    value = f"{reference['name']}.{identifier(reference['field'])}"
    return {None: value, "last": f"LAST({value}, 1)", "first": f"FIRST({value})"}[reference["which"]]
