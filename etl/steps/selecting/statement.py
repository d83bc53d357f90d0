"""One SELECT over ``events``: Spark SQL text → its parts, or findings about parts that it may not have.

A query reads the events of its stream and nothing else: one flat SELECT whose only table is ``events``. What needs state between
events (aggregates, joins, order …) belongs to other steps.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from etl.api import Finding
from etl.expressions import BadExpressionError, parse_statements
from etl.expressions.signatures.spark_names import CODE_RUNNERS
from etl.steps.selecting.query_texts import split_at_commas, tokenize

GENERATORS = {"explode", "explode_outer", "posexplode", "posexplode_outer", "inline", "inline_outer", "stack", "json_tuple"}

_AGGREGATES = {"try_sum", "try_avg", "collect_union", "array_agg", "listagg", "string_agg", "approx_top_k", "histogram_numeric"}
"""Aggregates that are not aggregates to sqlglot."""

_SHAPE = "write SELECT … FROM events [LATERAL VIEW …] [WHERE …]"
_STATEFUL = "a window step aggregates: aggregates: {n: count(*)}, group_by: […]"

_CLAUSES = {
    "joins": (
        ("JOIN", ","),
        "JOIN",
        "the step lookup adds the fields of a table; a stream with from: [a, b] reads two",
    ),
    "order": (("ORDER BY",), "ORDER BY", "events stay in the order in which they are read; sort where they are stored"),
    "sort": (("SORT BY",), "SORT BY", "events stay in the order in which they are read; sort where they are stored"),
    "cluster": (("CLUSTER BY",), "CLUSTER BY", "leave it out"),
    "distribute": (("DISTRIBUTE BY",), "DISTRIBUTE BY", "leave it out"),
    "limit": (("LIMIT", "FETCH"), "LIMIT", "a condition in WHERE chooses events; etl run --limit ends a run after some"),
    "offset": (("OFFSET",), "OFFSET", "a condition in WHERE chooses events"),
    "distinct": (("DISTINCT",), "DISTINCT", "a window step with group_by gives one event a group"),
    "group": (("GROUP BY",), "GROUP BY", "a window step groups: group_by: […], aggregates: {n: count(*)}"),
    "having": (("HAVING",), "HAVING", "a window step has it: having: n > 5"),
    "with_": (("WITH",), "WITH", "write several sql steps, one after the other"),
    "qualify": (("QUALIFY",), "QUALIFY", _STATEFUL),
    "windows": (("WINDOW",), "WINDOW", _STATEFUL),
    "sample": (("TABLESAMPLE",), "TABLESAMPLE", "rand() < 0.1 in WHERE selects a tenth"),
    "pivots": (("PIVOT", "UNPIVOT"), "PIVOT", "the step unnest makes events of a list"),
    "hint": (("/*+",), "a hint", "leave it out"),
}
"""Clauses that a query over single events cannot have: the words that begin them, the name, what to do instead."""

_SETS = {"union": "UNION", "intersect": "INTERSECT", "except": "EXCEPT"}


@dataclass(frozen=True)
class SelectStatement:
    """A checked SELECT, and the texts of its parts."""

    tree: Any
    """sqlglot's syntax tree."""
    written: Any
    """The same with functions as they are written, for `analyse_node`."""
    projections: str
    """The text between SELECT and FROM."""
    table: str
    """What follows FROM up to WHERE, without the word ``events``: alias and lateral views."""
    where: str | None

    @property
    def name(self) -> str:
        """What the query calls its table."""
        return str(self._source.alias or "events")

    @property
    def _source(self) -> Any:
        return _from(self.tree).this


def read_select(query: str) -> SelectStatement | list[Finding]:
    """Parse and check."""
    from sqlglot import exp

    tree = _parse(query)
    if isinstance(tree, Finding):
        return [tree]
    if tree.key in _SETS:
        hint = "for UNION give a stream several inputs: from: [a, b]" if tree.key == "union" else _SHAPE
        at = _word_at(query, (_SETS[tree.key],))
        return [Finding("bad-sql", f"{_SETS[tree.key]} is not for a stream's single events", hint=hint, at=at)]
    if type(tree) is not exp.Select or _from(tree) is None:
        lacks = "lacks FROM events" if type(tree) is exp.Select else f"is {tree.key.upper()}, and not one SELECT from events"
        return [Finding("bad-sql", f"the query {lacks}", hint=_SHAPE, at=0)]
    findings = [*_clauses(query, tree)] or [*_queries(tree)] or [*_tables(tree), *_functions(tree)]
    cut = _split(query, tree)
    if findings or cut is None:
        return findings or [Finding("bad-sql", "the query has parts that are not allowed", hint=_SHAPE, at=0)]
    if len(split_at_commas(tokenize(cut.projections))) != len(cut.written.expressions):
        hint = "write cast(value as struct<…>), and not value::struct<…>"
        return [Finding("bad-sql", "the list of columns cannot be divided at its commas", hint=hint, at=0)]
    return cut


def start_offset(node: Any) -> int:
    """The offset of a node's first name in the text."""
    offsets = [n.meta["start"] for n in node.walk() if "start" in n.meta]
    return min(offsets, default=0)


def _from(tree: Any) -> Any:
    return tree.args.get("from_") or tree.args.get("from")


def _parse(query: str) -> Any:
    import sqlglot
    from sqlglot.errors import SqlglotError

    try:
        trees = parse_statements(query.rstrip("; \n\t"))
    except BadExpressionError as error:
        return Finding("bad-sql", str(error), hint=error.hint or _SHAPE, at=error.at)
    comma = _lone_comma(query)
    if comma is not None:
        return Finding("bad-sql", "a comma stands before FROM", hint="leave it out", at=comma)
    if len(trees) != 1 or trees[0] is None:
        return Finding("bad-sql", f"the query has {len(trees)} statements, and one SELECT is expected", hint=_SHAPE, at=0)
    try:
        return sqlglot.parse_one(query, dialect="spark")
    except SqlglotError as error:  # what its grammar of functions has beyond ours
        return Finding("bad-sql", f"cannot be read: {str(error).splitlines()[0]}", hint=_SHAPE, at=0)


def _lone_comma(query: str) -> int | None:
    """Where a comma stands before FROM: sqlglot reads over it, and Spark does not."""
    from sqlglot.dialects.spark import Spark

    tokens = Spark().tokenize(query)
    pairs = pairwise(tokens)
    return next((one.start for one, other in pairs if one.text == "," and other.token_type.name == "FROM"), None)


def _clauses(query: str, tree: Any) -> Iterator[Finding]:
    allowed = {"expressions", "from_", "from", "laterals", "where"}
    for name in (name for name, value in tree.args.items() if value and name not in allowed):
        words, shown, hint = _CLAUSES.get(name if name != "with" else "with_", ((), name.rstrip("_").upper(), _SHAPE))
        yield Finding("stateful-sql", f"{shown} is not for a stream's single events", hint=hint, at=_word_at(query, words))


def _word_at(query: str, words: tuple[str, ...]) -> int:
    """Where one of the words stands outside brackets; 0 if it does not."""
    from sqlglot.dialects.spark import Spark

    depth = 0
    for token in Spark().tokenize(query):
        depth += {"L_PAREN": 1, "R_PAREN": -1}.get(token.token_type.name, 0)
        if depth == 0 and " ".join(token.text.upper().split()) in words:
            return int(token.start)
    return 0


def _tables(tree: Any) -> Iterator[Finding]:
    from sqlglot import exp

    source = _from(tree).this
    plain = isinstance(source, exp.Table) and isinstance(source.this, exp.Identifier)
    given = {name for name, value in source.args.items() if value}
    if not plain or not given <= {"this", "alias"} or source.name.lower() != "events":
        found = source.sql(dialect="spark")
        yield Finding("bad-sql", f"a query reads FROM events, and this one from {found!r}", hint=_SHAPE, at=start_offset(source))


def _queries(tree: Any) -> Iterator[Finding]:
    from sqlglot import exp

    for query in (n for n in tree.find_all(exp.Query) if n is not tree and not isinstance(n, exp.Table)):
        hint = "the step lookup adds the fields of a table; for the rest write several sql steps, one after the other"
        yield Finding("bad-sql", "a query inside a query is not for a stream's single events", hint=hint, at=start_offset(query))
        return


def _functions(tree: Any) -> Iterator[Finding]:
    from sqlglot import exp

    for node in tree.find_all(exp.Func, exp.Window, exp.QueryTransform):
        name = (
            node.name if isinstance(node, exp.Anonymous) else node.sql_name() if isinstance(node, exp.Func) else node.key
        ).lower()
        if name in CODE_RUNNERS or isinstance(node, exp.QueryTransform):
            yield Finding("bad-sql", f"{name} would run code of its own, and is not allowed", at=start_offset(node))
        elif isinstance(node, exp.AggFunc | exp.Window) or name in _AGGREGATES:
            yield Finding("stateful-sql", f"{name} looks at more than one event", hint=_STATEFUL, at=start_offset(node))
    for lateral in tree.args.get("laterals") or ():
        called = lateral.this.name if isinstance(lateral.this, exp.Anonymous) else lateral.this.sql_name()
        if not lateral.args.get("view") or called.lower() not in GENERATORS:
            known = ", ".join(sorted(GENERATORS))
            yield Finding(
                "bad-sql", f"{called} makes no rows here", hint=f"lateral views are of {known}", at=start_offset(lateral)
            )


def _split(query: str, tree: Any) -> SelectStatement | None:
    """The text between SELECT, FROM events and WHERE, by tokens outside brackets."""
    from sqlglot.dialects.spark import Spark

    clauses: dict[str, Any] = {}
    tokens = [token for token in Spark().tokenize(query) if token.text != ";"]
    depth = 0
    for at, token in enumerate(tokens):
        word = token.text.upper()
        depth += {"(": 1, ")": -1}.get(word, 0) if token.token_type.name in ("L_PAREN", "R_PAREN") else 0
        if depth == 0 and token.token_type.name in ("SELECT", "FROM", "WHERE"):
            clauses.setdefault(word, (token, tokens[at + 1] if at + 1 < len(tokens) else None))
    if any(token.text == "|>" for token in tokens):  # sqlglot reads a pipe as clauses
        return None
    if tokens[0].text.upper() != "SELECT" or "FROM" not in clauses or clauses["FROM"][1] is None:
        return None
    (from_, table), where = clauses["FROM"], clauses.get("WHERE")
    end = tokens[-1].end + 1
    rest = query[table.end + 1 : where[0].start if where else end]
    return SelectStatement(
        tree,
        parse_statements(query.rstrip("; \n\t"))[0],
        query[tokens[0].end + 1 : from_.start],
        rest,
        query[where[0].end + 1 : end] if where else None,
    )
