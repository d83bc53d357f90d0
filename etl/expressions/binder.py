"""Binds a syntax tree: resolves names against the schema, derives types, chooses Arrow forms."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from functools import cached_property
from itertools import zip_longest
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from etl.api import Finding, Schema, format_type, visible
from etl.expressions import bound_node as b
from etl.expressions import hints, logic
from etl.expressions.bound_node import BoundNode
from etl.expressions.calls import lambdas, user_calls
from etl.expressions.calls.arguments import MisuseError
from etl.expressions.calls.functions import FUNCTIONS, VOLATILE
from etl.expressions.casts import cast, is_boolean_text
from etl.expressions.library import catalogue
from etl.expressions.library.function import LibraryFunction
from etl.expressions.nodes import NODES
from etl.expressions.signatures import lookup
from etl.expressions.signatures.refused_functions import refuse
from etl.expressions.signatures.spark_names import CODE_RUNNERS
from etl.expressions.signatures.spark_names import FUNCTIONS as SPARK_FUNCTIONS
from etl.expressions.signatures.struct_types import STRUCT_FUNCTIONS, find_struct_type
from etl.expressions.tree import start
from etl.expressions.widening import BOOLEAN, NULL, STRING, find_member, member_type

if TYPE_CHECKING:
    from sqlglot.expressions import Expr as Node

    from etl.udf.declaration import UserFunction


MAX_FINDINGS = 20
"""Maximum number of findings of one expression; binding stops after these."""


class TooManyFindingsError(Exception):
    """More than `MAX_FINDINGS`: the rest of the expression is not bound."""


class Binder:
    """Binds one expression, and collects its findings, fields and edits."""

    def __init__(self, schema: Schema, functions: Iterable[UserFunction] = ()) -> None:
        self.schema = schema
        self.functions = {function.name.lower(): function for function in functions}
        """Functions of the user, which come before others of the same name."""
        self.findings: list[Finding] = []
        self.fields: set[str] = set()
        self.edits: list[tuple[int, int, str]] = []
        """Spans of the text (end included) and the quoted names that replace them for Spark."""
        self._reads = 0
        """Number of fields and variables read so far."""
        self._variables: dict[str, pa.DataType] = {}
        """Types of the variables of the enclosing lambdas, by name in lower case."""
        self.arrow_only: dict[str, Node] = {}
        """Functions that are called and that Spark does not have, with the first call of each."""
        self.calls_broken = False
        """Whether a function is called that has errors, which are reported where it is declared."""
        self._volatile_calls = 0

    @property
    def is_volatile(self) -> bool:
        """Whether a random function or one of the clock is called."""
        return self._volatile_calls > 0

    def bind(self, node: Node) -> BoundNode:
        """Bind a node and its descendants."""
        build = NODES.get(type(node).__name__)
        before = self._reads
        try:
            bound = self.bind_spark_only(node) if build is None else build(self, node)
        except MisuseError as error:
            self.report(error.code, str(error), _find_blamed(node, str(error)), error.hint or hints.chain_hint(node))
            return b.spark_only(str(error))
        bound = logic.negate(bound) if node.args.get("negate") else bound
        return bound if bound.constant or self._reads > before else replace(bound, constant=True)

    def bind_spark_only(self, node: Node) -> BoundNode:
        """Bind a node that only Spark computes. Its parts are bound to find the fields and the mistakes in them."""
        for child in node.iter_expressions():
            if type(child).__name__ != "DataType":
                self.bind(child)
        return b.spark_only(f"{_describe(node)} has no Arrow form")

    def report(self, code: str, message: str, node: Node, hint: str | None = None) -> None:
        self.findings.append(Finding(code, message, hint=hint, at=start(node)))
        if len(self.findings) > MAX_FINDINGS:
            raise TooManyFindingsError

    def warn(self, code: str, message: str, node: Node, hint: str | None = None) -> None:
        self.findings.append(Finding(code, message, hint=hint, at=start(node), severity="warning"))

    def bind_condition(self, node: Node, accepted: tuple[pa.DataType, ...] = (BOOLEAN, STRING, NULL)) -> BoundNode:
        """Bind a node where Spark requires a boolean; operands of ``and``, ``or`` and ``not`` may be texts or null too."""
        bound = self.bind(node)
        if bound.is_literal and bound.type == STRING and not is_boolean_text(bound.value):
            self.report("wrong-type", f"{bound.value!r} is a text, not a condition", node, hints.lone_text(node))
            return b.spark_only("not a condition", BOOLEAN)
        if bound.type in accepted or (bound.type == NULL and not bound.is_literal):
            return cast(bound, BOOLEAN)
        self.report("wrong-type", f"a condition is needed, and this is {format_type(bound.type)}", node)
        return b.spark_only("not a condition", BOOLEAN)

    # ── Names ─────────────────────────────────────────────────────────────────────────────────────

    def bind_column(self, node: Node) -> BoundNode:
        self._reads += 1
        parts = list(_path(node))
        for count in range(len(parts), 0, -1):
            name = self.resolve(".".join(part.name for part in parts[:count]))
            if name is None or (count < len(parts) and not _has_members(self.schema.field(name).type)):
                continue
            self.fields.add(name)
            self.edits.append((parts[0].meta["start"], parts[count - 1].meta["end"], f"`{name.replace('`', '``')}`"))
            whole = b.column(name, self.schema.field(name).type)
            return self._member(whole, name, parts[count:]) if count < len(parts) else whole
        name = ".".join(part.name for part in parts)
        if name.lower() in _FUNCTIONS_WITHOUT_BRACKETS:
            return b.spark_only(_WHY_SPARK.get(name.lower(), f"{name} has no Arrow form"))
        return self._unknown_field(name, node)

    def bind_member(self, node: Node, parts: list[Node]) -> BoundNode:
        """Bind a member of a struct that an expression gives, such as ``items[0].name``."""
        whole = self.bind(node)
        if whole.run is not None and pa.types.is_struct(whole.type):
            return self._member(whole, node.sql(dialect="spark", normalize_functions=False), parts)
        return b.spark_only(
            whole.reason or "a member of this has no Arrow form", member_type(whole.type, [one.name for one in parts])
        )

    def _member(self, whole: BoundNode, path: str, parts: list[Node]) -> BoundNode:
        """Bind a member of a struct, which Arrow reads; a member inside a map or list only Spark reads."""
        numbers: list[int] = []
        type_ = whole.type
        for part in parts:
            number = find_member(type_, part.name) if pa.types.is_struct(type_) else None
            if number is None and pa.types.is_struct(type_):
                known = pa.schema([pa.field(f"{path}.{field.name}", field.type) for field in type_])
                return self._unknown_field(f"{path}.{part.name}", part, known)
            if number is None:
                inside = member_type(whole.type, [one.name for one in parts])
                return b.spark_only(f"{'.'.join([path, part.name])} reads inside a map or list", inside)
            numbers.append(number)
            path, type_ = f"{path}.{type_.field(number).name}", type_.field(number).type
        return b.apply(type_, lambda value: pc.struct_field(value, numbers), whole)

    def bind_variable(self, node: Node) -> BoundNode:
        """Bind a variable of a lambda, or a member of one."""
        self._reads += 1
        return b.spark_only("a lambda has no Arrow form", self._variables.get(node.name.lower(), NULL))

    def bind_body(self, node: Node, types: list[pa.DataType]) -> BoundNode:
        """Bind the body of a lambda whose variables have these types."""
        names = [variable.name.lower() for variable in node.expressions]
        outer = self._variables
        self._variables = outer | dict(zip_longest(names, types[: len(names)], fillvalue=NULL))
        try:
            return self.bind(node.this)
        finally:
            self._variables = outer

    def resolve(self, name: str) -> str | None:
        """Find the field of this name: the exact name first, then the name in any case. None if there is no such field."""
        return name if self.schema.get_field_index(name) >= 0 else self._lower.get(name.lower())

    @cached_property
    def _lower(self) -> dict[str, str]:
        """Name in lower case → the first field with this name in any case."""
        return {name.lower(): name for name in reversed(self.schema.names)}

    def _unknown_field(self, name: str, node: Node, known: Schema | None = None) -> BoundNode:
        schema = self.schema if known is None else known
        hint = hints.field_hint(name, node, visible(schema).names, schema)
        self.report("unknown-field", f"there is no field {name!r} here", node, hint)
        return b.spark_only(f"there is no field {name!r}")

    # ── Calls ─────────────────────────────────────────────────────────────────────────────────────

    def bind_call(self, node: Node) -> BoundNode:
        name = str(node.this).lower()
        if any(type(argument).__name__ == "Lambda" for argument in node.expressions):
            return lambdas.call(self, name, node)
        if name in self.functions:
            if self.functions[name].is_broken:
                self.calls_broken = True
            else:
                self.arrow_only.setdefault(name, node)
            return user_calls.bind_call(self.functions[name], [self.bind(argument) for argument in node.expressions])
        given = node.expressions[_units(name, node) :]
        if name == "struct":  # of which members may have names
            given = [argument.unalias() for argument in given]
        args = [self.bind(argument) for argument in given]
        if len(args) < len(node.expressions) or any(type(part).__name__ in _NAMED for part in node.expressions):
            return b.spark_only(f"{name}() has no Arrow form")
        return self.bind_function(name, node, args)

    def bind_function(self, name: str, node: Node, args: list[BoundNode]) -> BoundNode:
        """Bind a call of a function by its name."""
        if name.removesuffix("_outer") in _GENERATORS:
            instead = "the step `unnest` makes events of an array; a step `sql` has it alone in its list, or in LATERAL VIEW"
            raise MisuseError(f"{name}() makes several rows, and an expression has one value", "bad-expression", instead)
        if name in lookup.many_rows():
            raise MisuseError(
                f"{name}() aggregates many events, and this expression is computed for each event; use a window", "bad-expression"
            )
        if name in CODE_RUNNERS:
            raise MisuseError(f"{name} would run code of its own, and is not allowed", "bad-expression")
        refuse(name)
        library = None if name in SPARK_FUNCTIONS else catalogue.find(name)
        if library is not None:
            return self._library_call(library, node, args)
        if name not in SPARK_FUNCTIONS:
            names = SPARK_FUNCTIONS | set(catalogue.functions("own"))
            hint = hints.function_hint(name, names, catalogue.script_names(name), catalogue.names_in_scripts())
            self.report("unknown-function", f"there is no function {name!r}", node, hint)
            return b.spark_only(f"{name}() has no Arrow form")
        type_ = self.check_signature(node, args, lambda: lookup.result_type(name, args))
        function = FUNCTIONS.get(name)
        if type_ == NULL and name in STRUCT_FUNCTIONS:
            type_ = find_struct_type(name, node, args)
        if type_ is None or function is None:
            return b.spark_only(_WHY_SPARK.get(name, f"{name}() has no Arrow form"), type_)
        if len(args) < function.min_arguments or (function.max_arguments is not None and len(args) > function.max_arguments):
            return b.spark_only(f"{name}() with {len(args)} arguments has no Arrow form", type_)
        built = self._volatile(function.build(*args)) if name in VOLATILE else function.build(*args)
        return replace(built, type=type_) if built.unknown else built

    def _library_call(self, function: LibraryFunction, node: Node, args: list[BoundNode]) -> BoundNode:
        if not function.is_in_spark:
            self.arrow_only.setdefault(function.name, node)
        unknown = next((arg for arg in args if arg.unknown), None)
        if unknown is not None:
            return b.spark_only(unknown.reason or "", function.type)
        return self._volatile(function.bind(args)) if function.is_volatile else function.bind(args)

    def _volatile(self, bound: BoundNode) -> BoundNode:
        """Count a call of a random function or of the clock: it is not constant although it reads no field, and each call has its
        own random values."""
        self._reads += 1
        self._volatile_calls += 1
        number, run = self._volatile_calls, bound.run
        return bound if run is None else replace(bound, run=lambda rows: run(rows.in_call(number)))

    def check_signature(self, node: Node, args: list[BoundNode], find_type: Callable[[], pa.DataType]) -> pa.DataType | None:
        """Return the type that a call gives, ``null`` if it is unknown; None if Spark refuses the call, which is reported."""
        try:
            return find_type()
        except MisuseError as error:
            self.report(error.code, str(error), node, error.hint)
            return None


_FUNCTIONS_WITHOUT_BRACKETS = frozenset(
    ("current_date", "current_timestamp", "current_time", "localtime", "localtimestamp", "current_user")
)
"""Names that Spark takes for function calls if no field has the name."""

_GENERATORS = frozenset(("explode", "posexplode", "inline", "stack", "json_tuple"))
"""Generators: functions that give several rows for one event; some have a second form that ends in ``_outer``."""

_NAMED = ("Kwarg", "PropertyEQ")
"""Node kinds of named arguments."""

_UNIT_FIRST = frozenset(("dateadd", "date_add", "timestampadd", "datediff", "date_diff", "timestampdiff"))


def _units(name: str, node: Node) -> int:
    """How many arguments are units and not expressions, such as the first of ``datediff(hour, a, b)``."""
    first = node.expressions[0] if len(node.expressions) == 3 and name in _UNIT_FIRST else None
    return int(type(first).__name__ in ("Column", "Var") and "." not in first.sql()) if first is not None else 0


_WHY_SPARK = dict.fromkeys(
    ("now", "current_timestamp", "current_date", "localtimestamp", "curdate"),
    "the current time must be the same when a micro-batch is repeated, and only Spark records it",
)


def _find_blamed(node: Node, message: str) -> Node:
    """The literal that a message quotes, else the node itself."""
    parts = (part for part in node.iter_expressions() if type(part).__name__ == "Literal")
    return next((part for part in parts if repr(part.name) in message), node)


def _describe(node: Node) -> str:
    kind = type(node).__name__
    return {"Bracket": "reading an element", "Interval": "an interval", "Lambda": "a lambda"}.get(kind, kind.lower())


def _path(node: Node) -> list[Any]:
    if type(node).__name__ == "Dot":
        return [*_path(node.this), node.expression]
    return list(getattr(node, "parts", ()))


def _has_members(type_: pa.DataType) -> bool:
    return bool(pa.types.is_map(type_) or pa.types.is_list(type_) or pa.types.is_struct(type_) or pa.types.is_null(type_))
