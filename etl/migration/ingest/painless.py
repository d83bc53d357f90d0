"""Painless → expressions in Spark SQL.

A script is executed with expressions in place of values: a field that a branch sets becomes
<the field> end``, and one step sets all of them. An expression on a null, which ends a script in Elasticsearch, is null.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from etl.expressions.quoting import quoted_text
from etl.migration.draft import Draft, NotCarriedError, clean_name
from etl.migration.ingest import painless_tree as tree
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


class Painless:
    """Evaluates expressions and scripts on the fields of a draft."""

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
        return FALSE if found.is_null else found if found.type == TRUTH else _refuse("a condition that is no boolean")

    def run(self, statements: Sequence[tree.Statement], where: Value | None) -> Mapping[str, Value]:
        """The fields that a script sets, with their values."""
        for statement in statements:
            self._execute(statement, where)
        return self.fields

    def _execute(self, statement: tree.Statement, where: Value | None) -> None:
        if isinstance(statement, tree.Assignment):
            self._assign(statement, where)
        elif isinstance(statement, tree.If):
            condition = self.condition(statement.condition)
            for one in statement.then if condition != FALSE else ():
                self._execute(one, both(where, condition))
            for one in statement.other if condition != TRUE else ():
                self._execute(one, both(where, negation(condition)))
        elif isinstance(statement, tree.ForEach):
            self._repeat(statement, where)
        elif isinstance(statement, tree.Return):
            self.going = both(self.going, FALSE if where is None else negation(where))
        else:
            self._call(statement.call, where)

    def _repeat(self, loop: tree.ForEach, where: Value | None) -> None:
        """Execute the body for each item of a constant list."""
        if (
            isinstance(loop.items, tree.MethodCall)
            and loop.items.name == "entrySet"
            and isinstance(loop.items.target, tree.FieldPath)
        ):
            self._repeat_members(loop, loop.items.target, where)
            return
        items = self._constant(loop.items)
        if not isinstance(items, list) or len(items) > MAX_ROUNDS:
            raise NotCarriedError("a loop in Painless over what only an event knows; a step `python` can do it")
        for item in items:
            self.constants[loop.variable] = item
            self.variables[loop.variable] = constant(item)
            for statement in loop.body:
                self._execute(statement, where)

    def _repeat_members(self, loop: tree.ForEach, target: tree.FieldPath, where: Value | None) -> None:
        """Execute the body for each known member of an object."""
        prefix = f"{target.name}." if target.parts else ""
        names = dict.fromkeys(name.removeprefix(prefix).split(".")[0] for name in self.draft.types if name.startswith(prefix))
        if not names:
            raise NotCarriedError(
                "a loop in Painless over an object whose members are not known; a log given by --sample shows them"
            )
        for name in names:
            self.entries[loop.variable] = tree.FieldPath((*target.parts, name))
            for statement in loop.body:
                self._execute(statement, where)
        del self.entries[loop.variable]

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

    def _assign(self, one: tree.Assignment, where: Value | None) -> None:
        root, path = self._path(one.target)
        if isinstance(one.value, tree.EmptyMap | tree.MapLiteral):
            self._new_object(root, path, one.value, where)
            return
        if one.operator == "=" and (members := self._members(one.value)):
            for inside, value in members.items():
                self._put(root, (*path, *inside), value, where)
            return
        node = one.value if one.operator == "=" else tree.Binary(one.operator[0], one.target, one.value)
        self._put(root, path, self.value(node), where)

    def _path(self, target: tree.Node) -> tuple[str, tuple[str, ...]]:
        """The variable (empty for the event) and the members that an assignment names."""
        match target:
            case tree.FieldPath(parts) if parts:
                return "", parts
            case tree.Variable(name):
                return name, ()
            case tree.Member(inner, name):
                root, path = self._path(inner)
                return root, (*path, name)
            case tree.MethodCall(inner, "get", (key,)) if isinstance(name := self._constant(key), str):
                root, path = ("", ()) if inner == tree.FieldPath(()) else self._path(inner)
                return root, (*path, name)
        raise NotCarriedError("an assignment in Painless to something that is neither a field nor a variable")

    def _new_object(self, root: str, path: tuple[str, ...], node: tree.EmptyMap | tree.MapLiteral, where: Value | None) -> None:
        """An object exists as soon as one of its members does."""
        if root and not path:
            self.objects[root] = {}
        for key, value in node.entries if isinstance(node, tree.MapLiteral) else ():
            name = self._constant(key)
            if not isinstance(name, str):
                raise NotCarriedError("a map in Painless with a key that is not constant")
            if isinstance(value, tree.EmptyMap | tree.MapLiteral):
                self._new_object(root, (*path, name), value, where)
            else:
                self._put(root, (*path, name), self.value(value), where)

    def _members(self, node: tree.Node) -> Mapping[tuple[str, ...], Value]:
        """The members of an object that is assigned; none for a single value."""
        match node:
            case tree.Variable(name) if name in self.objects:
                return self.objects[name]
            case tree.MethodCall(tree.Variable(name), "getValue", ()) if name in self.entries:
                field = self.entries[name]
                return {(): self._field(field.name)} if field.name in self.draft.types else self._members(field)
            case tree.FieldPath() if node.name not in self.draft.types:
                names = self.draft.under(node.name)
                return {tuple(name[len(node.name) + 1 :].split(".")): self._field(name) for name in names}
        return {}

    def _put(self, root: str, path: tuple[str, ...], value: Value, where: Value | None) -> None:
        where = both(self.going, where)
        if not root:
            name = clean_name(".".join(path))
            self.fields[name] = choose(where, value, self._field(name) if where is not None else value)
        elif path:
            members = self.objects.setdefault(root, {})
            members[path] = choose(where, value, members.get(path, NULL))
        else:
            self.variables[root] = choose(where, value, self.variables.get(root, NULL))

    def _call(self, node: tree.Node, where: Value | None) -> None:
        if isinstance(node, tree.MethodCall) and node.name == "remove" and isinstance(node.target, tree.FieldPath):
            key = self._constant(node.arguments[0]) if len(node.arguments) == 1 else None
            if not isinstance(key, str):
                raise NotCarriedError("remove(…) in Painless with a name that is not constant")
            name = ".".join((*node.target.parts, key))
            for one in (*self.draft.under(name), name):
                if one in self.draft.types or one in self.fields:
                    self._put("", (one,), NULL, where)
        elif isinstance(node, tree.MethodCall) and node.name in ("add", "addAll") and len(node.arguments) == 1:
            before, added = self.value(node.target), self.value(node.arguments[0])
            self._put(*self._path(node.target), appended(before, added), where)
        elif isinstance(node, tree.MethodCall) and node.name == "put" and len(node.arguments) == 2:
            key, value = node.arguments
            name = self._constant(key)
            if not isinstance(name, str) or not isinstance(node.target, tree.FieldPath):
                raise NotCarriedError("put(…) in Painless with a name that is not constant")
            self._put("", (*node.target.parts, name), self.value(value), where)
        else:
            raise NotCarriedError("a call in Painless whose result is not used")

    def _field(self, name: str) -> Value:
        return self.fields[name] if name in self.fields else self.draft.field(name)

    def value(self, node: tree.Node) -> Value:
        match node:
            case tree.Literal(value):
                return constant(value)
            case tree.FieldPath():
                return self._field(clean_name(node.name))
            case tree.Variable(name):
                return self._variable(name)
            case tree.ListLiteral(items):
                return array_of([self.value(one) for one in items]) if items else Value("array()", TEXTS)
            case tree.Unary("!", value):
                return negation(self.condition(value))
            case tree.Unary(_, value):
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
        raise NotCarriedError(f"this in Painless: {type(node).__name__}")

    def _variable(self, name: str) -> Value:
        if name not in self.variables:
            raise NotCarriedError(f"Painless with the unknown variable {name}")
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
        sign = "=" if not (one.reads and other.reads) else "<=>"
        return Value(f"{one.sql} {sign} {other.sql}", TRUTH, reads_of([one, other]))

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
        value, type_ = self.value(node.left), node.right.value if isinstance(node.right, tree.Literal) else ""
        wanted = {"String": not value.is_array and value.type == TEXT, "List": value.is_array, "ArrayList": value.is_array}
        wanted |= dict.fromkeys(("Integer", "Long", "int", "long"), value.type in ("int", WHOLE))
        wanted |= dict.fromkeys(("Double", "Float", "double", "float"), value.type in ("float", NUMBER)) | {
            "Number": value.is_number
        }
        wanted |= {"Boolean": value.type == TRUTH, "Map": False}
        if type_ not in wanted:
            raise NotCarriedError(f"instanceof {type_} in Painless")
        return negation(is_null(value)) if wanted[str(type_)] else FALSE

    def _matches(self, text: Value, pattern: tree.Node, whole: bool) -> Value:
        if not isinstance(pattern, tree.Pattern):
            raise NotCarriedError("a regular expression in Painless that is not constant")
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
        sign = "div" if operator == "/" and type_ in ("int", WHOLE) else operator
        left, right = (f"({x.sql})" if re.search(r"\s", x.sql) else x.sql for x in (one, other))
        return Value(f"{left} {sign} {right}", type_, reads_of([one, other]))

    def _method(self, node: tree.MethodCall) -> Value:
        if isinstance(node.target, tree.Variable) and node.target.name not in (*self.variables, "params"):
            return self._static(f"{node.target.name}.{node.name}", [self.value(one) for one in node.arguments])
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
            raise NotCarriedError(f".{node.name}(…) in Painless")
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
            raise NotCarriedError(f"{name}(…) in Painless")
        return NULL if any(one.is_null for one in arguments) else made(*arguments)

    def _size(self, value: Value) -> Value:
        return NULL if value.is_null else call("size" if value.is_array else "length", [value], WHOLE)


def appended(before: Value, added: Value, duplicates: bool = True) -> Value:
    """A list and more items; a single value counts as a list of one."""
    if before.is_null:
        return added if added.is_array else as_type(added, f"array<{TEXT if added.is_null else added.type}>")
    type_ = common_type(before.type if before.is_array else f"array<{before.type}>", added.type)
    one, other = as_type(before, type_), as_type(added, type_)
    joined = call("concat" if duplicates else "array_union", [one, other], type_)
    if not added.reads:
        return Value(f"case when {one.sql} is null then {other.sql} else {joined.sql} end", type_, joined.reads)
    alone = f"when {one.sql} is null then {other.sql} when {other.sql} is null then {one.sql}"
    return Value(f"case {alone} else {joined.sql} end", type_, joined.reads)


def _refuse(what: str) -> Value:
    raise NotCarriedError(f"{what} in Painless")


def _shown(value: Value) -> Value:
    return (
        value
        if not value.reads and value.type == TEXT
        else Value(f"coalesce({as_type(value, TEXT).sql}, 'null')", TEXT, value.reads)
    )


def _text(function: str, type_: str = TEXT) -> Callable[..., Value]:
    return lambda *values: call(function, [as_type(one, TEXT) if one.type != WHOLE else one for one in values], type_)


def _contains(target: Value, part: Value) -> Value:
    if target.is_array:
        return call("array_contains", [target, as_type(part, target.type[6:-1])], TRUTH)
    return call("contains", [as_type(target, TEXT), as_type(part, TEXT)], TRUTH)


def _substring(text: Value, first: Value, last: Value | None = None) -> Value:
    begin = Value(f"{first.sql} + 1", WHOLE, first.reads)
    length = [] if last is None else [Value(f"{last.sql} - {first.sql}", WHOLE, first.reads | last.reads)]
    return call("substring", [as_type(text, TEXT), begin, *length], TEXT)


def _pieces(text: Value, token: Value, *limit: Value) -> Value:
    if token.reads:
        raise NotCarriedError("splitOnToken(…) in Painless with a token that is not constant")
    literal = re.escape(token.sql[1:-1].replace("\\'", "'").replace("\\\\", "\\"))
    return call("split", [as_type(text, TEXT), Value(quoted_text(literal), TEXT), *limit], TEXTS)


def _get(target: Value, index: Value) -> Value:
    if not target.is_array:
        raise NotCarriedError("[…] in Painless on something that is no list")
    return call("get", [target, index], target.type[6:-1])


def _empty(value: Value) -> Value:
    return Value(f"size({value.sql}) = 0" if value.is_array else f"{as_type(value, TEXT).sql} = ''", TRUTH, value.reads)


MAX_ROUNDS = 200
"""Rounds of a loop, each of which becomes expressions."""

_TRUTHS = frozenset(("contains", "startsWith", "endsWith", "isEmpty", "equals", "equalsIgnoreCase", "containsKey"))

METHODS: Mapping[tuple[str, int], Callable[..., Value]] = {
    ("contains", 1): _contains,
    ("startsWith", 1): _text("startswith", TRUTH),
    ("endsWith", 1): _text("endswith", TRUTH),
    ("equals", 1): lambda one, other: Value(f"{one.sql} <=> {as_type(other, one.type).sql}", TRUTH, reads_of([one, other])),
    ("equalsIgnoreCase", 1): lambda one, other: Value(f"lower({one.sql}) <=> lower({other.sql})", TRUTH, reads_of([one, other])),
    ("toLowerCase", 0): _text("lower"),
    ("toUpperCase", 0): _text("upper"),
    ("trim", 0): _text("trim"),
    ("strip", 0): _text("trim"),
    ("length", 0): lambda one: call("length", [as_type(one, TEXT)], WHOLE),
    ("size", 0): lambda one: call("size" if one.is_array else "length", [one], WHOLE),
    ("isEmpty", 0): _empty,
    ("isBlank", 0): lambda one: Value(f"trim({one.sql}) = ''", TRUTH, one.reads),
    ("indexOf", 1): lambda one, part: Value(f"instr({one.sql}, {part.sql}) - 1", WHOLE, reads_of([one, part])),
    ("substring", 1): _substring,
    ("substring", 2): _substring,
    ("replace", 2): _text("replace"),
    ("concat", 1): _text("concat"),
    ("splitOnToken", 1): _pieces,
    ("splitOnToken", 2): _pieces,
    ("get", 1): _get,
    ("toString", 0): lambda one: as_type(one, TEXT),
    ("intValue", 0): lambda one: as_type(one, WHOLE),
    ("longValue", 0): lambda one: as_type(one, WHOLE),
    ("doubleValue", 0): lambda one: as_type(one, NUMBER),
    ("encodeBase64", 0): lambda one: Value(f"base64(cast({one.sql} as binary))", TEXT, one.reads),
    ("decodeBase64", 0): _text("base64_text"),
    ("(int)", 0): lambda one: as_type(one, WHOLE),
    ("(long)", 0): lambda one: as_type(one, WHOLE),
    ("(double)", 0): lambda one: as_type(one, NUMBER),
    ("(float)", 0): lambda one: as_type(one, NUMBER),
    ("(String)", 0): lambda one: as_type(one, TEXT),
    ("(def)", 0): lambda one: one,
}
"""Methods by name and number of arguments."""


def _rounded(value: Value) -> Value:
    number = value if value.is_number else as_type(value, NUMBER)
    return Value(f"cast(floor({number.sql} + 0.5D) as bigint)", WHOLE, number.reads)


def _of_numbers(function: str) -> Callable[..., Value]:
    return lambda *values: call(function, [as_type(one, NUMBER) for one in values], NUMBER)


def _parsed(type_: str) -> Callable[[Value], Value]:
    return lambda value: Value(f"cast({value.sql} as {type_})", type_, value.reads)


STATICS: Mapping[str, Callable[..., Value]] = {
    "Math.round": _rounded,
    "Math.floor": _of_numbers("floor"),
    "Math.ceil": _of_numbers("ceil"),
    "Math.abs": _of_numbers("abs"),
    "Math.max": _of_numbers("greatest"),
    "Math.min": _of_numbers("least"),
    "Math.pow": _of_numbers("power"),
    "Math.sqrt": _of_numbers("sqrt"),
    "Integer.parseInt": _parsed(WHOLE),
    "Long.parseLong": _parsed(WHOLE),
    "Double.parseDouble": _parsed(NUMBER),
    "Float.parseFloat": _parsed(NUMBER),
    "String.valueOf": lambda one: as_type(one, TEXT),
    "Integer.toString": lambda one: as_type(one, TEXT),
    "Long.toString": lambda one: as_type(one, TEXT),
    "Integer.valueOf": _parsed(WHOLE),
    "Long.valueOf": _parsed(WHOLE),
    "Boolean.parseBoolean": lambda one: Value(f"lower({one.sql}) = 'true'", TRUTH, one.reads),
}
"""Static methods by class and name."""
