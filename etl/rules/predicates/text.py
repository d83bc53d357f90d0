"""Texts: equals, contains, begins with, ends with."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import pyarrow as pa

from etl.api import Schema
from etl.rules.conditions.column_types import TEXT_TYPES, has_field
from etl.rules.conditions.tree import FALSE, Condition, Leaf, any_of
from etl.rules.predicates.pattern import Pattern
from etl.rules.predicates.predicate import SigmaBuilder, SqlBuilder, TextKind
from etl.rules.predicates.present import Present
from etl.rules.predicates.sql_nodes import compares_text, is_column, text_of
from etl.rules.predicates.text_predicate import TextPredicate
from etl.rules.search.literals import forms_of, is_literal, literals_of
from etl.rules.wording import count_noun

if TYPE_CHECKING:
    from etl.rules.search.literals import Literal

_WHERE: Mapping[TextKind, str] = {
    "contains": "anywhere",
    "startswith": "at the start",
    "endswith": "at the end",
    "equals": "whole",
}


def _sigma_bool(field: str, value: Any) -> Condition:
    return Leaf(Text(field, "equals", str(bool(value)).lower()))


def _sql_equal(node: Any, field: str, type_: pa.DataType) -> Condition | None:
    return Leaf(Text(field, "equals", str(node.expression.this), True)) if compares_text(node, type_) else None


def _sql_in(node: Any, field: str, type_: pa.DataType) -> Condition | None:
    items = [text_of(item) for item in node.expressions]
    if not is_column(node.this) or type_ not in TEXT_TYPES or not items or None in items:
        return None
    return any_of(Leaf(Text(field, "equals", item, True)) for item in items if item is not None)


_SHAPES: Mapping[tuple[bool, bool], TextKind] = {
    (False, False): "equals",
    (False, True): "startswith",
    (True, False): "endswith",
    (True, True): "contains",
}
"""By whether a LIKE pattern begins and ends with ``%``."""


def _sql_like(node: Any, field: str, type_: pa.DataType) -> Condition | None:
    if not compares_text(node, type_):
        return None
    pattern = str(node.expression.this)
    inner = pattern.removeprefix("%").removesuffix("%")
    if not inner or any(character in inner for character in "%_\\"):
        return None
    return Leaf(Text(field, _SHAPES[pattern.startswith("%"), pattern.endswith("%")], inner, True))


def _sql_function(kind: TextKind) -> Any:
    def build(field: str, texts: Sequence[str]) -> Condition | None:
        return Leaf(Text(field, kind, texts[0], True)) if len(texts) == 1 and texts[0] else None

    return build


@dataclass(frozen=True, slots=True)
class Text(TextPredicate):
    """A text equals, contains, begins or ends with ``text``. The case of letters does not count unless ``cased``."""

    sigma_types: ClassVar[Mapping[str, SigmaBuilder]] = {"SigmaBool": _sigma_bool}
    sql_nodes: ClassVar[Mapping[str, SqlBuilder]] = {"EQ": _sql_equal, "In": _sql_in, "Like": _sql_like}
    sql_functions: ClassVar[Mapping[str, Any]] = {kind: _sql_function(kind) for kind in ("contains", "startswith", "endswith")}

    field: str
    kind: TextKind
    text: str
    cased: bool = False

    def bind(self, schema: Schema) -> Condition:
        """As it is; a text with very many forms as a regular expression, an empty one as `Present`."""
        if not has_field(schema, self.field):
            return FALSE
        if not self.text and self.kind != "equals":
            return Leaf(Present(self.field))
        return Leaf(self if is_literal(self.text, self.cased) else _as_pattern(self))

    @property
    def expected_share(self) -> float:
        """Longer texts are rarer."""
        return 0.5 / (1 + len(self.text)) ** 2

    @property
    def words(self) -> str:
        """Such as ``name contains 'a'``."""
        return f"{self.field} {self.kind} {self.text!r}"

    @property
    def is_deferrable(self) -> bool:
        """Texts that may be anywhere are searched for at every byte."""
        return self.kind == "contains" and bool(self.text)

    def literals_to_find(self, number: int) -> Iterable[Literal]:
        """One, or one for each form of its letters."""
        return literals_of(number, self.text, self.kind, self.cased)

    @staticmethod
    def summarize(predicates: Sequence[Text]) -> str:
        """All in one scan."""
        kinds = Counter(_WHERE[one.kind] for one in predicates)
        where = ", ".join(f"{count:,} {kind}" for kind, count in kinds.most_common())
        return f"{count_noun(len(predicates), 'literal')} in one scan ({where})"


def _as_pattern(predicate: Text) -> Pattern:
    """A text with very many forms as a regular expression for all of them."""
    inner = "".join(re.escape(char) if len(forms_of(char)) == 1 else f"[{''.join(forms_of(char))}]" for char in predicate.text)
    start = r"\A" if predicate.kind in ("equals", "startswith") else ""
    end = r"\z" if predicate.kind in ("equals", "endswith") else ""
    return Pattern(predicate.field, f"{start}{inner}{end}")
