"""Conditions of Logstash → expressions."""

from __future__ import annotations

from typing import Any

from etl.migration.comparisons import among, contained, equal, exclusive, matching, ordered, truth
from etl.migration.draft import Draft, NoCounterpartError
from etl.migration.logstash.configuration import Reference, Regex, Test
from etl.migration.logstash.references import interpolated, reference
from etl.migration.values import TRUE, Value, both, constant, either, negation


def condition_value(draft: Draft, test: Test) -> Value:
    """Where the condition is true."""
    match test.operator, test.operands:
        case "and", (one, other):
            return both(condition_value(draft, one), condition_value(draft, other)) or TRUE
        case "or", (one, other):
            return either(condition_value(draft, one), condition_value(draft, other))
        case "nand", (one, other):
            return negation(both(condition_value(draft, one), condition_value(draft, other)) or TRUE)
        case "nor", (one, other):
            return negation(either(condition_value(draft, one), condition_value(draft, other)))
        case "xor", (one, other):
            return exclusive(condition_value(draft, one), condition_value(draft, other))
        case "!", (one,):
            return negation(condition_value(draft, one))
        case "", (one,):
            return truth(_operand(draft, one))
        case "==", (one, other):
            return equal(_operand(draft, one), _operand(draft, other))
        case "!=", (one, other):
            return negation(equal(_operand(draft, one), _operand(draft, other)))
        case ("=~" | "!~") as operator, (one, other):
            pattern = other.text if isinstance(other, Regex) else other
            if not isinstance(pattern, str):
                raise NoCounterpartError(f"{operator} with something that is not a regular expression")
            found = matching(_operand(draft, one), pattern)
            return found if operator == "=~" else negation(found)
        case "in", (one, other):
            if isinstance(other, list):
                return among(_operand(draft, one), [_operand(draft, item) for item in other])
            return contained(_operand(draft, one), _operand(draft, other))
        case ("<" | "<=" | ">" | ">=") as operator, (one, other):
            return ordered(operator, _operand(draft, one), _operand(draft, other))
    raise NoCounterpartError(f"a condition with {test.operator}")


def _operand(draft: Draft, node: Any) -> Value:
    if isinstance(node, Reference):
        return reference(draft, node.text)
    if isinstance(node, Test | Regex):
        raise NoCounterpartError("a condition inside a comparison")
    return interpolated(draft, node) if isinstance(node, str) and "%{" in node else constant(node)
