"""Tables and views that a script has declared, and the sources and look-up tables that it reads of them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from difflib import get_close_matches
from typing import Any

from etl.catalogue import Catalogue
from etl.sql.compiled import CompiledScript, plain_name
from etl.sql.hints import with_options
from etl.sql.relation import Relation
from etl.sql.statements import CreateTable, CreateView, Drop, Option, ScriptError, unknown_table
from etl.sql.table_options.options import read_options
from etl.sql.tables import check_columns, check_watermark, lookup_options, source_relation, with_declared_key


class DeclaredTables:
    """The tables and views of a script, by name; a table becomes a source or look-up table when the first query reads it."""

    def __init__(self, compiled: CompiledScript, catalogue: Catalogue) -> None:
        self.views: dict[str, CreateView] = {}
        self._tables: dict[str, CreateTable] = {}
        self._compiled = compiled
        self._catalogue = catalogue
        self._sources: dict[tuple[Any, ...], Relation] = {}

    def declare(self, statement: CreateTable | CreateView) -> None:
        """Add a table or view. Raises ScriptError for a name that is taken."""
        name = statement.name.lower()
        if name in self._tables or name in self.views:
            raise ScriptError("duplicate-name", f"{statement.name!r} is declared twice", statement.at, "give it another name")
        if isinstance(statement, CreateView):
            self.views[name] = statement
        else:
            self._tables[name] = with_declared_key(
                statement
            )  # also a table with a mistake, so that queries over it are not reported
            check_columns(statement)
            check_watermark(statement)

    def drop(self, statement: Drop) -> None:
        """Take a declaration back; one that a query has used stays, because a script is one job. Raises ScriptError."""
        name = statement.name.lower()
        if name not in self._tables and name not in self.views:
            if not statement.is_optional:
                raise unknown_table(statement.name, statement.at, self.near(statement.name))
            return
        used = {*self._compiled.value["sources"], *self._compiled.value["streams"], *self._compiled.value["sinks"]}
        if plain_name(statement.name) in used or any(key[0] == name for key in self._sources):
            message, hint = f"DROP of {statement.name!r} has no effect", "a script is one job, in which it is used before"
            self._compiled.warnings.append(ScriptError("no-effect", message, statement.at, hint))
            return
        self._tables.pop(name, None)
        self.views.pop(name, None)

    @contextmanager
    def tentatively(self) -> Iterator[None]:
        """Sources that are read first within are not known at its end, because their streams are removed."""
        sources = dict(self._sources)
        try:
            yield
        finally:
            self._sources = sources

    def get(self, name: str) -> CreateTable | None:
        """The table of a name, None if it is that of a view or of nothing."""
        return self._tables.get(name.lower())

    def table(self, name: str, at: int) -> CreateTable:
        """The table of a name. Raises ScriptError."""
        found = self._tables.get(name.lower())
        if found is None:
            raise unknown_table(name, at, self.near(name))
        return found

    def near(self, name: str) -> str:
        """A hint with the name that is probably meant, else with all names."""
        names = [*(one.name for one in self._tables.values()), *(one.name for one in self.views.values())]
        near = get_close_matches(name, names, 1)
        if not names:
            return f"declare it: CREATE TABLE {name} (…) WITH (…)"
        return f"is {near[0]!r} meant?" if near else f"the tables are {', '.join(names)}"

    def source(self, table: CreateTable, hints: Sequence[Option] = ()) -> Relation:
        """The rows of a table, read with further options where a query gives some."""
        key = (table.name.lower(), *((one.name, one.value) for one in hints))
        if found := self._sources.get(key):
            return found
        table = with_options(table, hints) if hints else table
        options = read_options(table, "source", self._catalogue)
        name = self._compiled.free_name(f"{plain_name(table.name)}_with_options") if hints else plain_name(table.name)
        more, relation = source_relation(table, name, options, self._catalogue.families["source"][options.type])
        self._compiled.add_component(("sources", name), options, table, more)
        if relation.steps:
            relation = self._compiled.as_stream(relation, f"{name}_rows", table.at)
        self._sources[key] = relation
        return relation

    def lookup_table(self, table: CreateTable, keys: list[str], at: int) -> tuple[str, list[str]]:
        """The name of a look-up table that has these columns as keys, and these in its order. Raises ScriptError."""
        name = plain_name(table.name)
        tables = self._compiled.value.setdefault("tables", {})
        if name not in tables:
            options = read_options(table, "table", self._catalogue)
            self._compiled.add_component(("tables", name), options, table, lookup_options(table, options, keys))
        key = tables[name].get("key", keys)
        own = [str(one) for one in (key if isinstance(key, list) else [key])]
        if {*own} != {*keys}:
            message = f"the key of the table {table.name!r} is {', '.join(own)}, and here it is {', '.join(keys)}"
            raise ScriptError(
                "wrong-columns", message, at, "compare its key in ON, or declare the table again with another name and key"
            )
        return name, own

    def own_lookup_table(self, table: CreateTable) -> None:
        """Declare a look-up table with the options that the script gives it."""
        name = plain_name(table.name)
        if name not in self._compiled.value.setdefault("tables", {}):
            self._compiled.add_component(("tables", name), read_options(table, "table", self._catalogue), table, {})
