"""One SELECT over ``events``: Spark SQL text → its parts, or findings about what it may not hold.

Nothing but the stream's events may be read, so the text is one flat SELECT whose only table is ``events``; what
keeps state between events (aggregates, joins, order …) is the work of other steps.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from etl.api import Finding

_FORBIDDEN = {"reflect", "try_reflect", "java_method"}
"""Functions that call whatever Java code is named."""

GENERATORS = {"explode", "explode_outer", "posexplode", "posexplode_outer", "inline", "inline_outer", "stack", "json_tuple"}

_AGGREGATES = {"try_sum", "try_avg", "collect_union", "array_agg", "listagg", "string_agg", "approx_top_k", "histogram_numeric"}
"""Aggregates that sqlglot does not know as such."""

_SHAPE = "write SELECT … FROM events [LATERAL VIEW …] [WHERE …]"
_STATEFUL = "aggregates are the work of a window step"


@dataclass(frozen=True)
class Select:
    """A checked SELECT, cut where `sql` puts something in."""

    tree: Any
    """sqlglot's syntax tree."""
    projections: str
    table: str
    """What follows FROM up to WHERE, without the word ``events``: alias and lateral views."""
    where: str | None

    def sql(self, table: str, extra: list[str], also: str | None) -> str:
        """The same SELECT over another table, with more columns, and with rows that meet ``also`` let through."""
        columns = ", ".join([self.projections, *extra])
        where = f"({self.where}\n) or {also}" if self.where and also else self.where
        alias = self.table if self._renamed else f"as events {self.table}"
        return f"select {columns} from {table} {alias}" + (f" where {where}" if where else "")

    @property
    def name(self) -> str:
        """What the query calls its table."""
        return str(self._source.alias or "events")

    @property
    def _renamed(self) -> bool:
        return bool(self._source.alias)

    @property
    def _source(self) -> Any:
        return _from(self.tree).this


def read_select(query: str) -> Select | list[Finding]:
    """Parse and check."""
    from sqlglot import exp

    tree = _parsed(query)
    if isinstance(tree, Finding):
        return [tree]
    if type(tree) is not exp.Select or _from(tree) is None:
        return [Finding("bad-sql", f"the query is {tree.key.upper()}, and not one SELECT from events", hint=_SHAPE, at=0)]
    findings = [*_clauses(tree), *_tables(tree), *_functions(tree)]
    cut = _cut(query, tree)
    if findings or cut is None:
        return findings or [Finding("bad-sql", "the query has parts that are not allowed", hint=_SHAPE, at=0)]
    return cut


def start(node: Any) -> int:
    """Where in the text a node's first name stands."""
    places = [n.meta["start"] for n in node.walk() if "start" in n.meta]
    return min(places, default=0)


def _from(tree: Any) -> Any:
    return tree.args.get("from_") or tree.args.get("from")


def _parsed(query: str) -> Any:
    import sqlglot
    from sqlglot.errors import ParseError, SqlglotError

    try:
        trees = sqlglot.parse(query, dialect="spark")
    except ParseError as error:
        first = error.errors[0]
        lines = query.split("\n")[: first["line"] - 1]
        at = sum(len(line) + 1 for line in lines) + max(0, first["col"] - len(first["highlight"] or ""))
        return Finding("bad-sql", f"cannot be read: {first['description']}", hint=_SHAPE, at=min(at, len(query)))
    except SqlglotError as error:
        return Finding("bad-sql", f"cannot be read: {error}", hint=_SHAPE, at=0)
    if len(trees) != 1 or trees[0] is None:
        return Finding("bad-sql", f"the query has {len(trees)} statements, and one SELECT is wanted", hint=_SHAPE, at=0)
    return trees[0]


def _clauses(tree: Any) -> Iterator[Finding]:
    allowed = {"expressions", "from_", "from", "laterals", "where"}
    for name in (name for name, value in tree.args.items() if value and name not in allowed):
        word = name.rstrip("_").replace("_", " ").upper()
        yield Finding("stateful-sql", f"{word} is not for a stream's single events", hint=f"{_STATEFUL}; {_SHAPE}", at=0)


def _tables(tree: Any) -> Iterator[Finding]:
    from sqlglot import exp

    source = _from(tree).this
    plain = isinstance(source, exp.Table) and isinstance(source.this, exp.Identifier)
    given = {name for name, value in source.args.items() if value}
    if not plain or not given <= {"this", "alias"} or source.name.lower() != "events":
        found = source.sql(dialect="spark")
        yield Finding("bad-sql", f"a query reads FROM events, and this one from {found!r}", hint=_SHAPE, at=start(source))
    for query in (n for n in tree.find_all(exp.Query) if n is not tree and not isinstance(n, exp.Table)):
        yield Finding("bad-sql", "the query has another query inside", hint=_SHAPE, at=start(query))
        return


def _functions(tree: Any) -> Iterator[Finding]:
    from sqlglot import exp

    for node in tree.find_all(exp.Func, exp.Window, exp.QueryTransform):
        name = (
            node.name if isinstance(node, exp.Anonymous) else node.sql_name() if isinstance(node, exp.Func) else node.key
        ).lower()
        if name in _FORBIDDEN or isinstance(node, exp.QueryTransform):
            yield Finding("bad-sql", f"{name} would run code of its own, and is not allowed", at=start(node))
        elif isinstance(node, exp.AggFunc | exp.Window) or name in _AGGREGATES:
            yield Finding("stateful-sql", f"{name} looks at more than one event", hint=_STATEFUL, at=start(node))
    for lateral in tree.args.get("laterals") or ():
        called = lateral.this.name if isinstance(lateral.this, exp.Anonymous) else lateral.this.sql_name()
        if not lateral.args.get("view") or called.lower() not in GENERATORS:
            known = ", ".join(sorted(GENERATORS))
            yield Finding("bad-sql", f"{called} makes no rows here", hint=f"lateral views are of {known}", at=start(lateral))


def _cut(query: str, tree: Any) -> Select | None:
    """The text between SELECT, FROM events and WHERE, by tokens outside brackets."""
    from sqlglot.dialects.spark import Spark

    places: dict[str, Any] = {}
    tokens = [token for token in Spark().tokenize(query) if token.text != ";"]
    depth = 0
    for at, token in enumerate(tokens):
        word = token.text.upper()
        depth += {"(": 1, ")": -1}.get(word, 0) if token.token_type.name in ("L_PAREN", "R_PAREN") else 0
        if depth == 0 and token.token_type.name in ("SELECT", "FROM", "WHERE"):
            places.setdefault(word, (token, tokens[at + 1] if at + 1 < len(tokens) else None))
    if any(token.text == "|>" for token in tokens):  # sqlglot reads a pipe as clauses
        return None
    if tokens[0].text.upper() != "SELECT" or "FROM" not in places or places["FROM"][1] is None:
        return None
    (from_, table), where = places["FROM"], places.get("WHERE")
    end = tokens[-1].end + 1
    rest = query[table.end + 1 : where[0].start if where else end]
    return Select(tree, query[tokens[0].end + 1 : from_.start], rest, query[where[0].end + 1 : end] if where else None)
