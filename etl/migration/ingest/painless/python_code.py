"""Scripts of Painless that expressions cannot say → the code of a Python function, called by a step ``python``."""

from __future__ import annotations

import keyword
import re
import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from etl.migration.draft import Draft, NoCounterpartError, clean_name
from etl.migration.ingest.painless import tree
from etl.migration.ingest.painless.python_methods import METHOD_NAMES, STATICS
from etl.migration.ingest.painless.python_times import CONSTANTS
from etl.migration.ingest.painless.runtime import CREATED, KINDS
from etl.migration.ingest.painless.sql_methods import MIN_ARGUMENTS
from etl.migration.values import NUMBER, TEXT, TEXTS, TIME, TRUTH, WHOLE

_OPERATORS = {"==": "==", "!=": "!=", "<": "<", "<=": "<=", ">": ">", ">=": ">=", "&&": "and", "||": "or", "^": "^", "&": "&"}
_SIGNS = {"|": "|", "-": "-", "*": "*", "<<": "<<", ">>": ">>"}
_FUNCTIONS = {"+": "plus", "/": "divide", "%": "remainder"}
_DECLARED = {"boolean": TRUTH, "int": WHOLE, "long": WHOLE, "float": NUMBER, "double": NUMBER, "List": TEXTS}
_RESULTS = {
    **dict.fromkeys(("size", "length", "indexOf", "lastIndexOf", "intValue", "longValue", "countTokens"), WHOLE),
    **dict.fromkeys(("(int)", "(long)"), WHOLE),
    **dict.fromkeys(("doubleValue", "floatValue", "(float)", "(double)"), NUMBER),
    **dict.fromkeys(("contains", "startsWith", "endsWith", "isEmpty", "equals", "equalsIgnoreCase", "containsKey"), TRUTH),
    **dict.fromkeys(("matches", "find", "isBefore", "isAfter"), TRUTH),
    **dict.fromkeys(("between", "toEpochMilli", "toEpochSecond", "getEpochSecond", "getMillis", "getTime", "getNano"), WHOLE),
    **dict.fromkeys(("getYear", "getMonthValue", "getDayOfMonth", "getHour", "getMinute", "getSecond"), WHOLE),
    **dict.fromkeys(("toNanos", "toMillis", "toSeconds", "getSeconds", "toMinutes", "toHours", "toDays"), WHOLE),
    **dict.fromkeys(("splitOnToken", "split", "collect", "toCharArray", "distinct", "filter", "map"), TEXTS),
}
_TIME_CLASSES = ("ZonedDateTime", "LocalDateTime", "OffsetDateTime", "Instant")
_STATIC_RESULTS = {
    **dict.fromkeys(_TIME_CLASSES, TIME),
    "Integer": WHOLE,
    "Long": WHOLE,
    "Float": NUMBER,
    "Double": NUMBER,
    "Math": NUMBER,
    "Boolean": TRUTH,
}
_TIME_CHANGES = re.compile(
    r"(with|plus|minus)[A-Z]\w*|truncatedTo|toInstant|toLocalDateTime|toZonedDateTime|toOffsetDateTime|atZone|atOffset"
)
"""Methods of a time that give another time."""


@dataclass
class PythonCode:
    """Writes the statements of a script as Python, and notes the fields that it reads and sets."""

    draft: Draft
    params: Mapping[str, Any]
    read: set[str] = field(default_factory=set)
    given: dict[str, str] = field(default_factory=dict)
    """Fields that the script sets, with their types."""
    used: set[str] = field(default_factory=set)
    """Functions of the runtime that the code calls."""
    types: dict[str, str] = field(default_factory=dict)
    """Types of local variables."""
    members: dict[str, dict[str, str]] = field(default_factory=dict)
    """Types of the members of local variables that hold maps."""
    functions: dict[str, str] = field(default_factory=dict)
    _lambdas: list[str] = field(default_factory=list)
    """Functions that a lambda with statements becomes, before the statement that has it."""
    _count: int = 0
    _after: list[Sequence[str]] = field(default_factory=list)
    """What rounds of the loops around end with."""

    def write(self, name: str, statements: Sequence[tree.Statement], condition: str | None, failed: str | None) -> str:
        """The code of the function. ``condition``: the field that says where it runs; ``failed``: the one that says where it
        failed, in place of an error."""
        for one in statements:
            if isinstance(one, tree.Function):
                self.functions[one.name] = _DECLARED.get(one.type, TEXT)
        functions = [line for one in statements if isinstance(one, tree.Function) for line in (*self._function(one), "", "")]
        body = self._block([one for one in statements if not isinstance(one, tree.Function)])
        for name_ in self.read:
            self.given.setdefault(name_, self.draft.types[name_])
        names = [*self.given, *self.draft.types]
        self.given = {name: type_ for name, type_ in self.given.items() if not any(one.startswith(f"{name}.") for one in names)}
        if not self.given:
            raise NoCounterpartError("a script in Painless that sets no field")
        types = {name_: type_ for name_, type_ in sorted(self.given.items()) if name_ != condition}
        self.given = {**types, **({failed: TRUTH} if failed else {})}
        used = ", ".join(sorted({*self.used, "flat", "nested"}))
        where = [f"    if not event[{condition!r}]:", "        return {**event}"] if condition else []
        guard = ["    try:", "        run(context)", "    except Exception:", f"        return {{**event, {failed!r}: True}}"]
        text = "\n".join(
            [
                f"from etl.migration.ingest.painless.runtime import {used}",
                "",
                f"FIELDS = {types!r}",
                *([f"params = {dict(self.params)!r}"] if self.params else []),
                "",
                "",
                *functions,
                "def run(ctx: dict) -> None:",
                *(f"    {line}" for line in body),
                "",
                "",
                f"def {name}(event: dict) -> dict:",
                *where,
                "    context = nested(event)",
                *(guard if failed else ["    run(context)"]),
                "    return flat(context, FIELDS)",
                "",
            ]
        )
        _check(text)
        return text

    def _function(self, one: tree.Function) -> list[str]:
        before = self.types
        self.types = {**dict.fromkeys(one.parameters, TEXT)}
        head = f"def {_local(one.name)}({', '.join(map(_local, one.parameters))}):"
        lines = [head, *(f"    {line}" for line in self._block(one.body))]
        self.types = before
        return lines

    def _block(self, statements: Sequence[tree.Statement]) -> list[str]:
        lines: list[str] = []
        for one in statements:
            before, self._lambdas = self._lambdas, []
            made = self._statement(one)
            lines += [*self._lambdas, *made]
            self._lambdas = before
        return lines or ["pass"]

    def _statement(self, one: tree.Statement) -> list[str]:
        match one:
            case tree.Assignment():
                return self._assign(one)
            case tree.If(condition, then, other):
                head = [f"if {self.value(condition)}:", *_indented(self._block(then))]
                return [*head, "else:", *_indented(self._block(other))] if other else head
            case tree.ForEach(variable, items, body):
                self.types[variable] = self._type(items).removeprefix("array<").rstrip(">")
                loop = f"for {_local(variable)} in {self._use('items')}({self.value(items)}):"
                return [loop, *_indented(self._round(body, []))]
            case tree.While(condition, body, after, first):
                exit_check = [f"if not ({self.value(condition)}):", "    break"]
                ends = exit_check if first else [line for statement in after for line in self._statement(statement)]
                body_lines = self._round(body, ends)
                return [f"for _ in {self._use('rounds')}():", *_indented(body_lines if first else [*exit_check, *body_lines])]
            case tree.Try(body, handler):
                return ["try:", *_indented(self._block(body)), "except Exception:", *_indented(self._block(handler))]
            case tree.Jump("throw"):
                return ['raise ValueError("thrown by the script")']
            case tree.Jump(kind):
                return [*(self._after[-1] if kind == "continue" and self._after else []), kind]
            case tree.Return(value):
                return [f"return {self.value(value)}" if value is not None else "return"]
            case tree.Call(call):
                return [self._call_alone(call)]
        raise NoCounterpartError("a function inside another in Painless")

    def _round(self, body: Sequence[tree.Statement], ends: Sequence[str]) -> list[str]:
        self._after.append(ends)
        lines = self._block(body)
        self._after.pop()
        return [*lines, *ends]

    def _call_alone(self, call: tree.Node) -> str:
        """A call for what it changes."""
        if isinstance(call, tree.MethodCall):
            target, *keys = self._parts(call.target)
            if isinstance(call.target, tree.Variable) and call.name == "put" and len(call.arguments) == 2:
                key, value = call.arguments
                self._note_member(tree.MethodCall(call.target, "get", (key,)), self._type(value))
            if target == "ctx":
                constant = call.arguments[0].value if call.arguments and isinstance(call.arguments[0], tree.Literal) else None
                if call.name == "put" and isinstance(constant, str) and len(call.arguments) == 2:
                    self._give((*keys, constant), self._type(call.arguments[1]))
                elif call.name in ("add", "addAll") and keys and not self._is_field(keys):
                    self._give(keys, TEXTS)
        return self.value(call)

    def _assign(self, one: tree.Assignment) -> list[str]:
        node = one.value if one.operator == "=" else tree.Binary(one.operator[0], one.target, one.value)
        type_ = self._type(node)
        target = one.target
        if isinstance(target, tree.Variable):
            if self.types.get(target.name) in (None, "null", TEXT):
                self.types[target.name] = type_
            return [f"{_local(target.name)} = {self.value(node)}"]
        root, *keys = self._parts(target)
        self._note_member(target, type_)
        if root == "ctx" and keys:
            self._give(keys, type_, node)
            return [f"{self._use('put')}(ctx, {tuple(keys)!r}, {self.value(node)})"]
        if isinstance(target, tree.Member):
            return [f"{self._use('put')}({self.value(target.target)}, ({target.name!r},), {self.value(node)})"]
        if isinstance(target, tree.MethodCall) and target.name == "get" and len(target.arguments) == 1:
            key = self.value(target.arguments[0])
            if root == "ctx" or self._parts(target.target)[0] == "ctx":
                self._give_members(self._parts(target.target)[1:])
            return [f"{self._use('put')}({self.value(target.target)}, ({key},), {self.value(node)})"]
        raise NoCounterpartError("an assignment in Painless to something that is neither a field nor a variable")

    def _note_member(self, target: tree.Node, type_: str) -> None:
        match target:
            case tree.Member(tree.Variable(name), key) | tree.MethodCall(tree.Variable(name), "get", (tree.Literal(str(key)),)):
                self.members.setdefault(name, {})[key] = type_

    def _parts(self, node: tree.Node) -> list[str]:
        """``ctx`` and the members of a field; nothing for anything else."""
        match node:
            case tree.FieldPath(parts):
                return ["ctx", *parts]
            case tree.MethodCall(target, "get", (tree.Literal(str(key)),)):
                return [*self._parts(target), key]
            case tree.Member(target, name):
                return [*self._parts(target), name]
        return [""]

    def _is_field(self, keys: Sequence[str]) -> bool:
        name = clean_name(".".join(keys))
        return name in self.draft.types or bool(self.draft.under(name))

    def _give(self, keys: Sequence[str], type_: str, node: tree.Node | None = None) -> None:
        """Note a field that the script sets."""
        name = clean_name(".".join(keys))
        for entry, value in node.entries if isinstance(node, tree.MapLiteral) else ():
            if isinstance(entry, tree.Literal):
                self._give((*keys, str(entry.value)), self._type(value), value)
        members = self.members.get(node.name, {}) if isinstance(node, tree.Variable) else {}
        for key, member in members.items():
            self._give((*keys, key), member)
        if members or isinstance(node, tree.MapLiteral | tree.EmptyMap) or self.draft.under(name):
            return
        known = self.draft.types.get(name)
        if known is None and type_ != "null":
            before = self.given.get(name)
            self.given[name] = type_ if before in (None, type_) else TEXT
        elif known is not None:
            self.given[name] = known

    def _give_members(self, keys: Sequence[str]) -> None:
        """Note the members of an object that a key which only an event knows can name: those in the tables of parameters."""
        for name, type_ in _table_members(self.params):
            if re.fullmatch(r"[A-Za-z_][\w-]*", name):
                self._give((*keys, name), type_)

    def _use(self, function: str) -> str:
        self.used.add(function)
        return function

    def value(self, node: tree.Node) -> str:
        match node:
            case tree.Literal(value):
                return repr(value)
            case tree.FieldPath(parts):
                return self._field(parts)
            case tree.Variable("params"):
                return "params" if self.params else "{}"
            case tree.Variable(name) if name in self.types:
                return _local(name)
            case tree.Variable(name):  # as a name of Python it could be a function that executes a text
                raise NoCounterpartError(f"{name} in Painless, which no statement declares")
            case tree.Member(tree.Variable(owner), name) if owner not in self.types and f"{owner}.{name}" in CONSTANTS:
                return f"{self._use('CONSTANTS')}[{f'{owner}.{name}'!r}]"
            case tree.Member(target, name):
                return f"{self._use('get')}({self.value(target)}, {name!r})"
            case tree.ListLiteral(items):
                return f"[{', '.join(self.value(one) for one in items)}]"
            case tree.EmptyMap():
                return "{}"
            case tree.MapLiteral(entries):
                return f"{{{', '.join(f'{self.value(key)}: {self.value(one)}' for key, one in entries)}}}"
            case tree.Unary(operator, value):
                return f"({'not ' if operator == '!' else operator}{self.value(value)})"
            case tree.Ternary(condition, then, other):
                return f"({self.value(then)} if {self.value(condition)} else {self.value(other)})"
            case tree.Binary():
                return self._binary(node)
            case tree.MethodCall():
                return self._call(node)
            case tree.New(type_, arguments) if type_ in CREATED:
                return f"{self._use('create')}({', '.join([repr(type_), *map(self.value, arguments)])})"
            case tree.Lambda(_, _, body) if body:
                return self._function_of(node)
            case tree.Lambda(variables, value):
                before, self.types = self.types, {**self.types, **dict.fromkeys(variables, TEXT)}
                made = f"(lambda {', '.join(map(_local, variables))}: {self.value(value)})"
                self.types = before
                return made
            case tree.Pattern(text):
                return repr(text)
        raise NoCounterpartError(f"{f'new {node.type}(…)' if isinstance(node, tree.New) else type(node).__name__} in Painless")

    def _function_of(self, node: tree.Lambda) -> str:
        """The name of a function with the statements of a lambda."""
        self._count += 1
        name = f"lambda_{self._count}"
        before, self.types = self.types, {**self.types, **dict.fromkeys(node.variables, TEXT)}
        after, self._after = self._after, []
        body = self._block(node.body)
        self.types, self._after = before, after
        self._lambdas += [f"def {name}({', '.join(map(_local, node.variables))}):", *_indented(body)]
        return name

    def _field(self, parts: Sequence[str]) -> str:
        name = clean_name(".".join(parts))
        if not parts:
            self.read |= {one for one in self.draft.types if one not in self.draft.temporary}
            return "ctx"
        members = self.draft.under(name)
        if not members and not (parts[-1] == "length" and self._is_field(parts[:-1])):
            self.draft.field(name)
        stems = [name, *([clean_name(".".join(parts[:-1]))] if parts[-1] in ("length",) else [])]
        self.read |= {one for one in (*members, *stems) if one in self.draft.types}
        return f"{self._use('get')}(ctx, {', '.join(map(repr, parts))})"

    def _binary(self, node: tree.Binary) -> str:
        if node.operator == "instanceof":
            assert isinstance(node.right, tree.Literal)
            if node.right.value not in KINDS:
                raise NoCounterpartError(f"instanceof {node.right.value} in Painless")
            return f"{self._use('is_kind')}({self.value(node.left)}, {str(node.right.value)!r})"
        left, right = self.value(node.left), self.value(node.right)
        if node.operator in ("=~", "==~"):
            return f"{self._use('matches')}({left}, {right}, {node.operator == '==~'})"
        if node.operator in ("==", "!=") and "None" in (left, right):
            left, right = (right, left) if left == "None" else (left, right)
            return f"({left} is {'not ' if node.operator == '!=' else ''}None)"
        if node.operator in _FUNCTIONS:
            return f"{self._use(_FUNCTIONS[node.operator])}({left}, {right})"
        return f"({left} {_OPERATORS.get(node.operator) or _SIGNS[node.operator]} {right})"

    def _call(self, node: tree.MethodCall) -> str:
        arguments = [self.value(one) for one in node.arguments]
        if isinstance(node.target, tree.Variable) and node.target.name not in (*self.types, "params"):
            if not node.target.name and node.name in self.functions:
                return f"{_local(node.name)}({', '.join(arguments)})"
            name = f"{node.target.name}.{node.name}"
            if name not in STATICS:
                raise NoCounterpartError(f"{name.removeprefix('.')}(…) in Painless")
            return f"{self._use('STATICS')}[{name!r}]({', '.join(arguments)})"
        if node.name not in METHOD_NAMES:
            raise NoCounterpartError(f".{node.name}(…) in Painless")
        if len(arguments) < MIN_ARGUMENTS.get(node.name, 0):
            raise NoCounterpartError(f".{node.name}(…) in Painless with {len(arguments)} arguments")
        if node.name == "get" and len(arguments) == 1:
            return f"{self._use('get')}({self.value(node.target)}, {arguments[0]})"
        return f"{self._use('call')}({', '.join([self.value(node.target), repr(node.name), *arguments])})"

    def _type(self, node: tree.Node) -> str:
        match node:
            case tree.Literal(value):
                kinds = {bool: TRUTH, int: WHOLE, float: NUMBER, str: TEXT}
                return kinds.get(type(value), "null")
            case tree.FieldPath(parts):
                return self.draft.types.get(clean_name(".".join(parts)), WHOLE if parts[-1:] == ("length",) else TEXT)
            case tree.Variable(name):
                return self.types.get(name, TEXT)
            case tree.ListLiteral(items):
                kinds_ = {self._type(one) for one in items}
                return f"array<{kinds_.pop()}>" if len(kinds_) == 1 else TEXTS
            case tree.Unary("!", _):
                return TRUTH
            case tree.Unary(_, value):
                return self._type(value)
            case tree.Ternary(_, then, other):
                found = {self._type(then), self._type(other)} - {"null"}
                return found.pop() if len(found) == 1 else TEXT
            case tree.Binary("+" | "-" | "*" | "/" | "%" as operator, left, right):
                types = {self._type(left), self._type(right)}
                if operator == "+" and TEXT in types:
                    return TEXT
                return NUMBER if {NUMBER, "float"} & types else WHOLE
            case tree.Binary("^" | "&" | "|" | "<<" | ">>"):
                return WHOLE
            case tree.Binary():
                return TRUTH
            case tree.MethodCall(tree.Variable(""), name):
                return self.functions.get(name, TEXT)
            case tree.MethodCall(tree.Variable("Math"), "round" | "floorMod" | "floorDiv"):
                return WHOLE
            case tree.MethodCall(tree.Variable(owner), name) if owner not in self.types and owner != "params":
                return TEXT if name in ("toString", "toHexString") else _STATIC_RESULTS.get(owner, TEXT)
            case tree.MethodCall(target, "get", _):
                return self._type(target)[6:-1] if self._type(target).startswith("array<") else TEXT
            case tree.MethodCall(target, name) if _TIME_CHANGES.fullmatch(name) and self._type(target) == TIME:
                return TIME
            case tree.New("Date", _):
                return TIME
            case tree.MethodCall(_, name):
                return _RESULTS.get(name, TEXT)
            case tree.New(("ArrayList" | "HashSet"), _):
                return TEXTS
            case tree.Member(_, "length"):
                return WHOLE
        return TEXT


def _table_members(table: Any) -> Iterator[tuple[str, str]]:
    """Members of tables inside others that are no tables themselves, with their types."""
    for value in table.values() if isinstance(table, Mapping) else table if isinstance(table, list) else ():
        if isinstance(value, Mapping):
            for name, member in value.items():
                if not isinstance(member, Mapping):
                    kinds = {bool: TRUTH, int: WHOLE, float: NUMBER, list: TEXTS}
                    yield str(name), kinds.get(type(member), TEXT)
        yield from _table_members(value)


def _indented(lines: Sequence[str]) -> list[str]:
    return [f"    {line}" for line in lines]


_TAKEN = frozenset(
    [
        *(
            "flat",
            "nested",
            "get",
            "put",
            "plus",
            "divide",
            "remainder",
            "matches",
            "is_kind",
            "items",
            "create",
            "call",
            "run",
            "rounds",
        ),
        *("event", "context", "list", "dict", "str", "ValueError", "Exception", "params", "FIELDS", "STATICS", "CONSTANTS"),
    ]
)


_SCRIPT = re.compile(r"(script|lambda)_\d+")


def _local(name: str) -> str:
    """A name of a variable or a function in Python. Invariant: two names of a script have two names in Python."""
    stem = name.rstrip("_")
    reserved = keyword.iskeyword(stem) or stem in _TAKEN or _SCRIPT.fullmatch(stem) or name.startswith("__")
    return f"{name}_" if reserved else name


def _check(text: str) -> None:
    """Raise NoCounterpartError for code that Python refuses, such as 21 loops inside each other. Nothing of it is executed."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", SyntaxWarning)
            compile(text, "script", "exec", dont_inherit=True)
    except (SyntaxError, ValueError, MemoryError, RecursionError) as error:
        reason = error.msg if isinstance(error, SyntaxError) else str(error)
        raise NoCounterpartError(f"a script in Painless whose Python is refused: {reason}") from None
