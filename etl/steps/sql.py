"""A SELECT over the events of a stream."""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Literal

import pyarrow as pa
from pydantic import Field

from etl.api import OFFSET, Expression, Finding, Schema, SparkStep, Step, flat_schema, nested_schema, visible
from etl.expressions import Analysis, analyse_node, flatten, quote_name, register
from etl.steps.field_selection import reserved_name
from etl.steps.filter import Filter
from etl.steps.heartbeats import ARRIVAL
from etl.steps.select import Select
from etl.steps.selecting.stars import check_star, find_star_columns, is_whole_table
from etl.steps.selecting.statement import GENERATORS, SelectStatement, read_select, start_offset
from etl.steps.spark_values import StepExpression
from etl.udf.declaration import functions_of

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame


class Sql(SparkStep):
    """Run one SELECT of Spark SQL over the stream's events, each event by itself.

    The query is ``SELECT … FROM events [LATERAL VIEW …] [WHERE …]``: it may compute and select columns, filter events, and
    turn an event into several (``explode``). Dotted fields are members of structs, as everywhere: ``source.ip``; a
    column's name in the result is its field, also with `` AS `source.ip` ``, and struct columns become dotted fields.
    Aggregates, joins, ``ORDER BY``, ``LIMIT`` and subqueries are refused; the step ``window`` aggregates.
    The query cannot read other tables or files, or run other code. Stateless; the order of events is kept within a partition.

    An event for which a value or the condition cannot be computed (a cast that fails, a division by zero) goes to the dead
    letters with the code ``expression-failed``; ``try_cast``, ``try_divide`` and the like give null instead. Such an error ends
    the run where a query makes rows (``explode``, ``LATERAL VIEW``), a struct, a map, or a type that only Spark knows. The step
    runs on Arrow where its expressions do, as ``select`` and ``filter``; ``etl explain`` names what needs Spark.

    ```yaml
    type: sql
    query: SELECT message, upper(split(message, ' ')[0]) AS verb FROM events WHERE message LIKE '% %'
    ```
    """

    type: Literal["sql"] = "sql"
    query: str = Field(
        description="One SELECT from events, in Spark SQL.", min_length=1, json_schema_extra={"format": "spark-sql-query"}
    )

    def check(self, incoming: Schema) -> Iterable[Finding]:
        """A query that is not one SELECT over events, unknown fields, columns without a name."""
        read = read_select(self.query)
        found = read if isinstance(read, list) else _check_columns(read, visible(incoming))
        yield from (replace(finding, path=("query",), hint=self._own_function_hint(finding) or finding.hint) for finding in found)

    def _own_function_hint(self, finding: Finding) -> str | None:
        """What to do about a call of a function of the user, which is none of Spark's."""
        own = [one.name for one in functions_of(self.query) if repr(one.name.lower()) in finding.message.lower()]
        if finding.code != "unknown-function" or not own:
            return None
        return f"functions of your own run on Arrow: compute {own[0]}() in a `set` step before"

    def fields(self, incoming: Schema) -> Schema:
        """The columns, flat; a type that only Spark knows is null."""
        read = read_select(self.query)
        if isinstance(read, list):
            return visible(incoming)
        known = _add_view_columns(read, _group_struct_members(visible(incoming)))
        columns = {name: type_ for node in read.written.expressions for name, type_ in _find_columns(node, read, known)}
        return flat_schema(pa.schema(list(columns.items())))

    def parts(self, incoming: Schema) -> Sequence[Step]:
        """A filter and a `select`, which make dead letters of events that cannot be computed; else one query of Spark."""
        read = read_select(self.query)
        columns = None if isinstance(read, list) else _column_texts(read, visible(incoming))
        if columns is None:
            return (self,)
        assert isinstance(read, SelectStatement)
        where = [] if read.condition is None else [_Where(where=read.condition)]
        return (*where, _Columns(fields=columns))

    def spark_expressions(self, incoming: Schema) -> Mapping[tuple[str | int, ...], str]:
        return {("query",): self.query}

    def apply(self, events: DataFrame) -> DataFrame:
        """Gather fields into structs, run the SELECT, flatten its structs. Hidden columns and heartbeat rows are passed on."""
        read = read_select(self.query)
        assert isinstance(read, SelectStatement), read
        hidden = [name for name in (OFFSET, ARRIVAL) if name in events.columns]
        has_hidden = any(is_whole_table(one, read) for one in read.written.expressions)
        hidden_columns = [] if has_hidden else [f"{quote_name(read.name)}.{quote_name(name)}" for name in hidden]
        heartbeat = f"{quote_name(read.name)}.{quote_name(OFFSET)} is null" if OFFSET in hidden else None
        register(events.sparkSession)
        view = f"events_{uuid.uuid4().hex}"
        _nest_columns(events).createTempView(view)
        try:
            return flatten(events.sparkSession.sql(read.sql(view, hidden_columns, heartbeat)))
        finally:
            events.sparkSession.catalog.dropTempView(view)


class _Where(Filter):
    """The condition of a query."""

    type: Literal["sql"] = "sql"  # type: ignore[assignment]

    def _expressions(self) -> list[StepExpression]:
        return [StepExpression(("query",), self.where)]


class _Columns(Select):
    """The columns of a query, which may have names that no option can name."""

    type: Literal["sql"] = "sql"  # type: ignore[assignment]
    values: Mapping[str, Expression] = Field(alias="fields", min_length=1)

    def _expressions(self) -> list[StepExpression]:
        return [StepExpression(("query",), text) for text in self.values.values()]


def _column_texts(read: SelectStatement, incoming: Schema) -> dict[str, str] | None:
    """The expression of each column; None if the query makes rows, structs, or values of a type that is not known."""
    texts = read.item_texts()
    known = _group_struct_members(incoming)
    nodes = read.written.expressions
    if not texts or read.tree.args.get("laterals"):
        return None
    found: dict[str, str] = {}
    for node, text in zip(nodes, texts, strict=True):
        inner = node.unalias()
        if node.args.get("aliases") or _function_name(inner) in GENERATORS:
            return None
        if node.is_star:
            found |= {name: quote_name(field.name) for name, field in find_star_columns(node, read, known)}
        elif members := _find_struct_fields(inner, read, known):
            begin = len(_field_path(inner, read))
            found |= {f"{node.output_name}{member.name[begin:]}": quote_name(member.name) for member in members}
        else:
            type_ = _analyse(inner, read, known).type
            if pa.types.is_struct(type_) or pa.types.is_null(type_):
                return None
            found[node.output_name] = text
    return found or None


# ── Fields ────────────────────────────────────────────────────────────────────────────────────────


def _group_struct_members(incoming: Schema) -> Schema:
    """Return the fields in the order of ``*``: members of a struct are next to each other."""
    try:
        return flat_schema(nested_schema(incoming))
    except ValueError:  # the step that causes the conflict reports it
        return incoming


def _check_columns(read: SelectStatement, incoming: Schema) -> Iterator[Finding]:
    known = _add_view_columns(read, incoming)
    for node in read.written.expressions:
        if not node.is_star and not node.output_name and not node.args.get("aliases"):
            yield Finding(
                "unnamed-column", f"{node.sql(dialect='spark')!r} has no name", hint="add AS and a name", at=start_offset(node)
            )
        if node.is_star:
            yield from check_star(node, read, known)
        else:
            for name, _ in _find_columns(node, read, known):
                yield from (replace(finding, at=start_offset(node)) for finding in reserved_name(name, ("query",)))
    items = [node.unalias() for node in read.written.expressions if not node.is_star]
    views = [lateral.this for lateral in read.written.args.get("laterals") or ()]
    for part in (*views, *items):
        for argument in _arguments(part) if _function_name(part) in GENERATORS else (part,):
            if not _find_struct_fields(argument, read, known):  # a struct that is selected whole
                yield from _analyse(argument, read, known).findings
    where = read.written.args.get("where")
    if where:
        yield from _analyse(where.this, read, known).condition_findings_at()
    yield from _check_duplicates(read, known)


def _check_duplicates(read: SelectStatement, known: Schema) -> Iterator[Finding]:
    """Find columns with the name of an earlier one; Spark ignores case."""
    seen: set[str] = set()
    for node in read.written.expressions:
        names = list(dict.fromkeys(name for name, _ in _find_columns(node, read, known)))
        for name in names:
            if name and name.lower() in seen:
                hint = (
                    f"exclude it from the star: * except ({name.split('.')[0]})" if _has_star(read) else "give one another name"
                )
                yield Finding("duplicate-column", f"the result has two columns {name!r}", hint=hint, at=start_offset(node))
        seen |= {name.lower() for name in names}


def _has_star(read: SelectStatement) -> bool:
    return any(node.is_star for node in read.written.expressions)


def _find_columns(node: Any, read: SelectStatement, known: Schema) -> Iterator[tuple[str, pa.DataType]]:
    """Names and types that one item of the SELECT list gives."""
    if node.is_star:
        yield from ((name, field.type) for name, field in find_star_columns(node, read, known))
        return
    inner = node.unalias()
    members = _find_struct_fields(inner, read, known)
    if members:
        yield from ((f"{node.output_name}{f.name[len(_field_path(inner, read)) :]}", f.type) for f in members)
    elif node.args.get("aliases"):
        yield from zip((a.name for a in node.args["aliases"]), _find_generated_types(inner, read, known), strict=False)
    elif _function_name(inner) in GENERATORS:
        yield node.output_name, next(_find_generated_types(inner, read, known))
    else:
        yield node.output_name, _analyse(inner, read, known).type


def _field_path(node: Any, read: SelectStatement) -> str:
    """``source.ip`` of a column node, without the table's name; empty for anything else."""
    from sqlglot import exp

    if not isinstance(node, exp.Column):
        return ""
    parts = [part.name for part in node.parts]
    if len(parts) > 1 and parts[0].lower() == read.name.lower():
        parts = parts[1:]
    return ".".join(parts)


def _find_struct_fields(node: Any, read: SelectStatement, known: Schema) -> list[pa.Field]:
    """The fields inside a struct that a column node names."""
    path = _field_path(node, read)
    return [f for f in known if f.name.startswith(f"{path}.")] if path else []


def _add_view_columns(read: SelectStatement, incoming: Schema) -> Schema:
    """Return the incoming fields and the columns that lateral views add."""
    known = incoming
    for lateral in read.written.args.get("laterals") or ():
        alias = lateral.args.get("alias")
        names = [column.name for column in (alias.columns if alias else ())]
        types = list(_find_generated_types(lateral.this, read, known))
        for at, name in enumerate(names):
            known = known.append(pa.field(name, types[at] if at < len(types) else pa.null()))
    return known


def _function_name(node: Any) -> str:
    """Return the name of the function that a node calls, in lower case; empty if it is not a call."""
    from sqlglot import exp

    if isinstance(node, exp.Anonymous):
        return str(node.name).lower()
    return node.sql_name().lower() if isinstance(node, exp.Func) else ""


def _arguments(call: Any) -> list[Any]:
    return [call.this, *call.expressions] if call.key != "anonymous" else list(call.expressions)


def _find_generated_types(generator: Any, read: SelectStatement, known: Schema) -> Iterator[pa.DataType]:
    """Return the types of the columns that a generator function returns; null if only Spark knows a type."""
    name = _function_name(generator)
    if "posexplode" in name:
        yield pa.int32()
    if "explode" not in name:
        yield from [pa.null()] * 100  # inline, stack and json_tuple: more columns than a query names
        return
    type_ = _analyse(_arguments(generator)[0], read, known).type
    if pa.types.is_map(type_):
        yield from (type_.key_type, type_.item_type)
    else:
        yield type_.value_type if pa.types.is_list(type_) else pa.null()


def _analyse(node: Any, read: SelectStatement, known: Schema) -> Analysis:
    from sqlglot import exp

    def unqualified(column: Any) -> Any:
        if not isinstance(column, exp.Column):
            return column
        first, *rest = column.parts
        if not rest or first.name.lower() != read.name.lower():
            return column
        bare = exp.column(rest[0].copy())
        return exp.Dot.build([bare, *(part.copy() for part in rest[1:])]) if len(rest) > 1 else bare

    return analyse_node(node.copy().transform(unqualified), known)


# ── Flat and nested columns of Spark ──────────────────────────────────────────────────────────────


def _nest_columns(events: DataFrame) -> DataFrame:
    """Gather dotted columns into structs."""
    from pyspark.sql import functions as F  # noqa: N812

    tree: dict[str, Any] = {}
    for name in events.columns:
        *parents, last = name.split(".")
        node = tree
        for parent in parents:
            node = node.setdefault(parent, {})
        node[last] = F.col(quote_name(name))
    return events.select(*(_build_column(node).alias(name) for name, node in tree.items()))


def _build_column(node: Any) -> Column:
    from pyspark.sql import functions as F  # noqa: N812

    return F.struct(*(_build_column(child).alias(name) for name, child in node.items())) if isinstance(node, dict) else node
