"""Expressions of Painless → expressions in Spark SQL. An expression on a null, which ends a script in Elasticsearch, is null."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from inspect import signature
from typing import Any

from etl.migration.draft import Draft, NoCounterpartError, clean_name
from etl.migration.ingest.painless import tree
from etl.migration.ingest.painless.sql_methods import METHODS, MIN_ARGUMENTS, STATICS
from etl.migration.values import (
    FALSE,
    NULL,
    NUMBER,
    TEXT,
    TEXTS,
    TRUE,
    TRUTH,
    WHOLE,
    Value,
    array_of,
    as_type,
    both,
    call,
    choose,
    common_type,
    constant,
    either,
    is_null,
    negation,
    reads_of,
    text_value,
)

MAX_ROUNDS = 200
"""Rounds of a loop, each of which becomes expressions."""

_TRUTHS = frozenset(("contains", "startsWith", "endsWith", "isEmpty", "equals", "equalsIgnoreCase", "containsKey"))


class Expressions:
    """Evaluates expressions on the fields of a draft."""

    def __init__(self, draft: Draft, params: Mapping[str, Any] | None = None) -> None:
        self.draft = draft
        self.variables: dict[str, Value] = {}
        self.params = dict(params or {})
        self.fields: dict[str, Value] = {}
        """Fields that the script has set."""
        self.constants: dict[str, Any] = {}
        """Variables of loops over constant lists."""
        self.entries: dict[str, tree.FieldPath] = {}
        """Variables of loops over the members of objects."""
        self.objects: dict[str, dict[tuple[str, ...], Value]] = {}
        """Variables that hold objects: their members by path."""
        self.going: Value | None = None
        """Where the script has not returned yet; None is everywhere."""

    def condition(self, node: tree.Node) -> Value:
        """Where the expression is true."""
        found = self.value(node)
        return FALSE if found.is_null else found if found.type == TRUTH else _refuse("a condition that is not a boolean")

    def _constant(self, node: tree.Node) -> Any:
        """The value of what is the same for every event; None for anything else."""
        match node:
            case tree.Literal(value):
                return value
            case tree.ListLiteral(items):
                return [self._constant(one) for one in items]
            case tree.Variable(name):
                return self.constants.get(name)
            case tree.Member(tree.Variable("params"), name):
                return self.params.get(name)
            case tree.MethodCall(tree.Variable(name), "getKey", ()) if name in self.entries:
                return self.entries[name].parts[-1]
            case tree.MethodCall(tree.Variable("params"), "get", (key,)):
                return self.params.get(str(self._constant(key)))
        return None

    def _field(self, name: str) -> Value:
        return self.fields[name] if name in self.fields else self.draft.field(name)

    def value(self, node: tree.Node) -> Value:
        match node:
            case tree.Literal(value):
                return constant(value)
            case tree.FieldPath((*stem, "length" | "size")) if (name := clean_name(".".join(stem))) in self.draft.types:
                return self._size(self._field(name))
            case tree.FieldPath():
                return self._field(clean_name(node.name))
            case tree.Variable(name):
                return self._variable(name)
            case tree.ListLiteral(items):
                return array_of([self.value(one) for one in items]) if items else Value("array()", TEXTS)
            case tree.Unary("!", value):
                return negation(self.condition(value))
            case tree.Unary("-", value):
                found = self.value(value)
                return Value(f"-({found.sql})", found.type, found.reads)
            case tree.Ternary(condition, then, other):
                return choose(self.condition(condition), self.value(then), self.value(other))
            case tree.Binary():
                return self._binary(node)
            case tree.MethodCall():
                return self._method(node)
            case tree.Member(tree.Variable("params"), name):
                return constant(self._param(name))
            case tree.Member(target, "length" | "size"):
                return self._size(self.value(target))
        raise NoCounterpartError(f"this in Painless: {type(node).__name__}")

    def _variable(self, name: str) -> Value:
        if name not in self.variables:
            raise NoCounterpartError(f"Painless with the unknown variable {name}")
        return self.variables[name]

    def _param(self, name: str) -> Any:
        value = self.params.get(name)
        return _refuse("a table as a value") if isinstance(value, dict) else value

    def _binary(self, node: tree.Binary) -> Value:
        match node.operator:
            case "&&":
                left = self.condition(node.left)
                found = FALSE if left == FALSE else both(left, self.condition(node.right))
                return TRUE if found is None else found
            case "||":
                left = self.condition(node.left)
                return TRUE if left == TRUE else either(left, self.condition(node.right))
            case "==":
                return self._equal(node.left, node.right)
            case "!=":
                return negation(self._equal(node.left, node.right))
            case "instanceof":
                return self._instance(node)
            case "=~" | "==~":
                return self._matches(self.value(node.left), node.right, whole=node.operator == "==~")
            case "<" | "<=" | ">" | ">=":
                return self._compare(node)
        return self._arithmetic(node.operator, self.value(node.left), self.value(node.right))

    def _equal(self, left: tree.Node, right: tree.Node) -> Value:
        if isinstance(left, tree.Literal) and left.value is None:
            left, right = right, left
        if isinstance(right, tree.Literal) and right.value is None:
            return self._is_null(left)
        one, other = self.value(left), self.value(right)
        if one.is_null or other.is_null:
            return TRUE if one.is_null and other.is_null else is_null(other if one.is_null else one)
        if one.is_array or other.is_array:
            return FALSE if one.is_array != other.is_array else Value(f"{one.sql} = {other.sql}", TRUTH, reads_of([one, other]))
        type_ = common_type(one.type, other.type)
        one, other = as_type(one, type_), as_type(other, type_)
        operator = "=" if not (one.reads and other.reads) else "<=>"
        return Value(f"{one.sql} {operator} {other.sql}", TRUTH, reads_of([one, other]))

    def _is_null(self, node: tree.Node) -> Value:
        """Whether a value is missing; an object is missing where all of its fields are."""
        if isinstance(node, tree.FieldPath) and node.name not in self.fields:
            names = [name for name in (*self.draft.under(node.name), *self.fields) if name.startswith(node.name + ".")]
            if names:
                found: Value | None = None
                for name in dict.fromkeys(names):
                    found = both(found, is_null(self._field(name)))
                return found or TRUE
        if isinstance(node, tree.FieldPath) and node.name in self.draft.certain and node.name not in self.fields:
            return FALSE
        return is_null(self.value(node))

    def _instance(self, node: tree.Binary) -> Value:
        type_ = node.right.value if isinstance(node.right, tree.Literal) else ""
        if type_ in ("Map", "HashMap") and isinstance(node.left, tree.FieldPath) and node.left.parts:
            return self._is_object(node.left)
        value = self.value(node.left)
        is_instance = {"String": not value.is_array and value.type == TEXT, "List": value.is_array, "ArrayList": value.is_array}
        is_instance |= dict.fromkeys(("Integer", "Long", "int", "long"), value.type in ("int", WHOLE))
        is_instance |= dict.fromkeys(("Double", "Float", "double", "float"), value.type in ("float", NUMBER)) | {
            "Number": value.is_number
        }
        is_instance |= {"Boolean": value.type == TRUTH, "Map": False}
        if type_ not in is_instance:
            raise NoCounterpartError(f"instanceof {type_} in Painless")
        return negation(is_null(value)) if is_instance[str(type_)] else FALSE

    def _is_object(self, node: tree.FieldPath) -> Value:
        """Whether an object has members; one whose members are not known before the run counts as such."""
        if self.draft.under(node.name):
            return negation(self._is_null(node))
        return TRUE if any(one.prefix == f"{node.name}." for one in self.draft.members) else FALSE

    def _matches(self, text: Value, pattern: tree.Node, whole: bool) -> Value:
        if not isinstance(pattern, tree.Pattern):
            raise NoCounterpartError("a regular expression in Painless that is not constant")
        regex = f"^(?:{pattern.text})$" if whole else pattern.text
        return FALSE if text.is_null else call("regexp_like", [as_type(text, TEXT), text_value(regex)], TRUTH)

    def _compare(self, node: tree.Binary) -> Value:
        one, other = self.value(node.left), self.value(node.right)
        if one.is_null or other.is_null:
            return FALSE
        type_ = NUMBER if one.is_number != other.is_number else common_type(one.type, other.type)
        one, other = ((x if x.is_number and type_ == NUMBER else as_type(x, type_)) for x in (one, other))
        return Value(f"{one.sql} {node.operator} {other.sql}", TRUTH, reads_of([one, other]))

    def _arithmetic(self, operator: str, one: Value, other: Value) -> Value:
        if operator == "+" and (TEXT in (one.type, other.type)):
            return call("concat", [_shown(one), _shown(other)], TEXT)
        if one.is_null or other.is_null:
            return NULL
        one, other = (x if x.is_number else as_type(x, NUMBER) for x in (one, other))
        type_ = common_type(one.type, other.type)
        symbol = "div" if operator == "/" and type_ in ("int", WHOLE) else operator
        left, right = (f"({x.sql})" if re.search(r"\s", x.sql) else x.sql for x in (one, other))
        return Value(f"{left} {symbol} {right}", type_, reads_of([one, other]))

    def _method(self, node: tree.MethodCall) -> Value:
        if isinstance(node.target, tree.Variable) and node.target.name not in (*self.variables, "params"):
            return self._static(f"{node.target.name}.{node.name}", [self.value(one) for one in node.arguments])
        if len(node.arguments) < MIN_ARGUMENTS.get(node.name, 0):
            raise NoCounterpartError(f".{node.name}(…) in Painless with {len(node.arguments)} arguments")
        constant_ = self._constant(node)
        if constant_ is not None:
            return constant(constant_)
        key = self._constant(node.arguments[0]) if node.arguments else None
        if isinstance(node.target, tree.FieldPath) and isinstance(key, str) and node.name in ("get", "containsKey"):
            member = tree.FieldPath((*node.target.parts, key))
            return self.value(member) if node.name == "get" else negation(self._is_null(member))
        if node.name in ("get", "getOrDefault") and isinstance(table := self._constant(node.target), dict):
            return self._look_up(table, node.arguments)
        if node.name == "containsKey" and isinstance(table := self._constant(node.target), dict):
            return self._value_in(self.value(node.arguments[0]), list(table))
        if (
            node.name in ("matches", "replaceAll", "replaceFirst")
            and node.arguments
            and isinstance(node.arguments[0], tree.Pattern)
        ):
            text = self.value(node.target)
            if node.name == "replaceFirst":
                raise NoCounterpartError(".replaceFirst(…) in Painless")
            if node.name == "matches":
                return self._matches(text, node.arguments[0], whole=True)
            return call("regexp_replace", [text, text_value(node.arguments[0].text), self.value(node.arguments[1])], TEXT)
        arguments = [self.value(one) for one in node.arguments]
        target = self.value(node.target)
        if target.is_null:
            return FALSE if node.name in _TRUTHS else NULL
        if node.name == "contains" and isinstance(listed := self._constant(node.target), list) and None not in listed:
            return self._value_in(arguments[0], listed)
        if node.name == "contains" and isinstance(node.target, tree.ListLiteral) and arguments:
            return self._among(target, arguments[0], node.target)
        made = METHODS.get((node.name, len(arguments)))
        if made is None:
            raise NoCounterpartError(f".{node.name}(…) in Painless")
        return made(target, *arguments)

    def _look_up(self, table: Mapping[str, Any], arguments: Sequence[tree.Node]) -> Value:
        """The value of a key in a constant table."""
        key = self.value(arguments[0])
        other = self.value(arguments[1]) if len(arguments) > 1 else NULL
        values = {name: constant(value) for name, value in table.items() if not isinstance(value, dict)}
        if key.is_null or len(values) < len(table) or len(table) > MAX_ROUNDS:
            return other if key.is_null else _refuse("a table with more than plain values")
        type_ = other.type
        for value in values.values():
            type_ = common_type(type_, value.type)
        cases = " ".join(
            f"when {as_type(text_value(name), key.type).sql} then {as_type(x, type_).sql}" for name, x in values.items()
        )
        rest = "" if other.is_null else f" else {as_type(other, type_).sql}"
        return Value(f"case {key.sql} {cases}{rest} end", type_, key.reads | other.reads)

    def _value_in(self, value: Value, items: Sequence[Any]) -> Value:
        if value.is_null or not items:
            return FALSE
        texts = ", ".join(as_type(constant(item), value.type).sql for item in items)
        return Value(f"{value.sql} in ({texts})", TRUTH, value.reads)

    def _among(self, items: Value, one: Value, node: tree.ListLiteral) -> Value:
        if one.is_null:
            return FALSE
        values = [as_type(self.value(item), one.type) for item in node.items]
        return Value(f"{one.sql} in ({', '.join(x.sql for x in values)})", TRUTH, one.reads | items.reads)

    def _static(self, name: str, arguments: list[Value]) -> Value:
        made = STATICS.get(name)
        if made is None:
            raise NoCounterpartError(f"{name}(…) in Painless")
        if any(one.is_null for one in arguments):
            return NULL
        try:
            signature(made).bind(*arguments)
        except TypeError:
            raise NoCounterpartError(f"{name}(…) in Painless with {len(arguments)} arguments") from None
        return made(*arguments)

    def _size(self, value: Value) -> Value:
        return NULL if value.is_null else call("size" if value.is_array else "length", [value], WHOLE)


def _refuse(what: str) -> Value:
    raise NoCounterpartError(f"{what} in Painless")


def _shown(value: Value) -> Value:
    return (
        value
        if not value.reads and value.type == TEXT
        else Value(f"coalesce({as_type(value, TEXT).sql}, 'null')", TEXT, value.reads)
    )
