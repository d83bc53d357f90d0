"""Syntax trees of Painless, the language of conditions and scripts in ingest pipelines."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Literal:
    value: str | int | float | bool | None


@dataclass(frozen=True)
class FieldPath:
    """``ctx.a.b``, without ``ctx``."""

    parts: tuple[str, ...]

    @property
    def name(self) -> str:
        return ".".join(self.parts)


@dataclass(frozen=True)
class Variable:
    """A local variable, or ``params``."""

    name: str


@dataclass(frozen=True)
class Member:
    target: Node
    name: str


@dataclass(frozen=True)
class ListLiteral:
    items: tuple[Node, ...]


@dataclass(frozen=True)
class EmptyMap:
    """``[:]`` or ``new HashMap()``."""


@dataclass(frozen=True)
class MapLiteral:
    """``['a': 1]``."""

    entries: tuple[tuple[Node, Node], ...]


@dataclass(frozen=True)
class Unary:
    operator: str
    value: Node


@dataclass(frozen=True)
class Binary:
    operator: str
    left: Node
    right: Node


@dataclass(frozen=True)
class Ternary:
    condition: Node
    then: Node
    other: Node


@dataclass(frozen=True)
class MethodCall:
    target: Node
    name: str
    arguments: tuple[Node, ...]


@dataclass(frozen=True)
class Pattern:
    """``/…/``."""

    text: str


@dataclass(frozen=True)
class New:
    """``new StringTokenizer(text, ".")``."""

    type: str
    arguments: tuple[Node, ...]


@dataclass(frozen=True)
class Lambda:
    """``x -> x == null``."""

    variables: tuple[str, ...]
    value: Node
    body: tuple[Statement, ...] = ()
    """Statements, in place of a value."""


Node = (
    Literal
    | FieldPath
    | Variable
    | Member
    | ListLiteral
    | EmptyMap
    | MapLiteral
    | Unary
    | Binary
    | Ternary
    | MethodCall
    | Pattern
    | New
    | Lambda
)


@dataclass(frozen=True)
class Assignment:
    target: Node
    operator: str
    value: Node


@dataclass(frozen=True)
class If:
    condition: Node
    then: tuple[Statement, ...]
    other: tuple[Statement, ...]


@dataclass(frozen=True)
class ForEach:
    """``for (def x : list) {…}``."""

    variable: str
    items: Node
    body: tuple[Statement, ...]


@dataclass(frozen=True)
class Return:
    value: Node | None


@dataclass(frozen=True)
class Call:
    """A call whose result is not used."""

    call: Node


@dataclass(frozen=True)
class While:
    """``while (…) {…}``, and ``for (…; …; …) {…}`` with what each round ends with."""

    condition: Node
    body: tuple[Statement, ...]
    after: tuple[Statement, ...] = ()
    first: bool = False
    """Whether the body is executed before the condition is evaluated: ``do {…} while (…)``."""


@dataclass(frozen=True)
class Try:
    body: tuple[Statement, ...]
    handler: tuple[Statement, ...]


@dataclass(frozen=True)
class Jump:
    """``break``, ``continue`` or ``throw``."""

    kind: str


@dataclass(frozen=True)
class Function:
    name: str
    type: str
    parameters: tuple[str, ...]
    body: tuple[Statement, ...]


Statement = Assignment | If | ForEach | Return | Call | While | Try | Jump | Function
