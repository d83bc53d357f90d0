"""A query that grows step by step: clauses of SELECT, queries and calls of steps as table functions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import IntEnum
from typing import Any

from etl.sql.forms.join_queries import join_query, lookup_query
from etl.sql.forms.literals import PLAIN_NAME, identifier, option_literal
from etl.sql.forms.match_queries import match_query
from etl.sql.forms.step_queries import Step, query_of


class QueryStyle(IntEnum):
    """How much of a stream is written as queries."""

    FUNCTIONS = 0
    """Each step is a table function."""
    CLAUSES = 1
    """Filters and lists of fields are clauses of SELECT."""
    QUERIES = 2
    """So are windows, rankings and values over earlier rows."""


FUNCTIONS, CLAUSES, QUERIES = QueryStyle.FUNCTIONS, QueryStyle.CLAUSES, QueryStyle.QUERIES


@dataclass(frozen=True)
class Query:
    """The query so far."""

    inputs: list[str]
    call: str = ""
    """The call of a step's function; without it rows come from the inputs."""
    inner: str = ""
    """The query whose rows the next one reads."""
    where: str = ""
    items: str = ""

    def extended(self, step: Step, style: QueryStyle, keys: Sequence[str] = ()) -> Query | None:
        """The query with a step, in this style; None if there is no such form of it. ``keys``: those of a table for look-ups."""
        kind, options = step["type"], {key for key in step if key != "type"}
        if style == QUERIES:
            query = self._wrapped(bool(self.where or self.items))
            text = query_of(step, query._rows(), query._as_table()) or query._joined(step, keys)
            return None if text is None else Query(self.inputs, inner=text)
        if kind == "filter" and options == {"where"}:
            return replace(self._wrapped(bool(self.where or self.items)), where=str(step["where"]))
        if kind in ("select", "set") and options == {"fields"} and step["fields"]:
            items = [f"  {_item(name, text)}" for name, text in step["fields"].items()]
            return replace(self._wrapped(bool(self.items)), items=",\n".join(["  *", *items] if kind == "set" else items))
        return None

    def matched(self, steps: Sequence[Step]) -> Query | None:
        """The query with steps that MATCH_RECOGNIZE says; None if it does not."""
        text = match_query(steps, self._wrapped(bool(self.where or self.items))._rows())
        return None if text is None else Query(self.inputs, inner=text)

    def _joined(self, step: Step, keys: Sequence[str]) -> str | None:
        """The query with a JOIN clause; pairs are made of the rows of inputs."""
        is_first = not (self.inner or self.call)
        query = join_query(step, self.inputs) if is_first else None
        return query or (lookup_query(step, self._rows(), keys) if step["type"] == "lookup" else None)

    def with_function(self, step: Step) -> Query:
        """The query with a step as a table function; its arguments have no null, which is the default of most options."""
        query = self._wrapped(bool(self.where or self.items))
        given = {key: value for key, value in step.items() if key != "type" and value is not None}
        options = [f",\n  {_option_name(key)} => {option_literal(value)}" for key, value in given.items()]
        return Query(self.inputs, call=f"{identifier(step['type'])}({query._as_arguments()}{''.join(options)})")

    def is_call_of(self, step: Step) -> bool:
        """Whether the query is the call of a step's function."""
        return self.call.startswith(f"{identifier(step['type'])}(")

    def _wrapped(self, is_needed: bool) -> Query:
        return Query(self.inputs, inner=self.select()) if is_needed else self

    def _as_arguments(self) -> str:
        if self.inner:
            return f"TABLE ({self.inner})"
        return self.call or ", ".join(f"TABLE {identifier(one)}" for one in self.inputs)

    def _as_table(self) -> str:
        """The rows as the one argument of a window function."""
        if not self.inner and not self.call and len(self.inputs) == 1:
            return f"TABLE {identifier(self.inputs[0])}"
        return f"TABLE ({self.inner or self.select()})"

    def _rows(self) -> str:
        """The rows as FROM reads them."""
        if self.inner:
            return f"({self.inner})"
        if self.call:
            return f"TABLE({self.call})"
        if len(self.inputs) == 1:
            return identifier(self.inputs[0])
        return "(" + " UNION ALL ".join(f"SELECT * FROM {identifier(one)}" for one in self.inputs) + ")"

    def select(self) -> str:
        """The text of the query."""
        if self.inner and not self.where and not self.items:
            return self.inner
        items = f"\n{self.items}\n" if self.items else " * "
        return f"SELECT{items}FROM {self._rows()}" + (f"\nWHERE {self.where}" if self.where else "")


def _option_name(name: str) -> str:
    return name if PLAIN_NAME.fullmatch(name) else f"`{name}`"


def _item(name: str, text: Any) -> str:
    return str(text) if str(text) == name and PLAIN_NAME.fullmatch(name) else f"{text} AS {identifier(name)}"
