"""GROUP BY → the step `window`, with the expressions that it needs before and after it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from etl.sql.columns import Scope, SqlColumn, TimeAttribute
from etl.sql.expressions import call_name, duration, find_aggregates, plain_column, quoted, spark_text, unfiltered
from etl.sql.functions.aggregates import aggregate_text, collected_texts, joined_text
from etl.sql.relation import Relation, Settings, StepText, WindowRows
from etl.sql.statements import ScriptError, start, text_key
from etl.sql.windows import GROUP_WINDOWS, window_of

WINDOW_TIME = "window_time"
"""Column of the last moment of a window, by which its results go in further windows."""
LAST_MOMENT = "flink_timestampadd('millisecond', -1, window_end)"

_ENDS = {"_start": "window_start", "_end": "window_end"}


def is_grouped(node: Any) -> bool:
    """Whether a SELECT has GROUP BY or aggregates."""
    return bool(node.args.get("group")) or any(find_aggregates(item.unalias()) for item in node.expressions)


def is_timed_window(step: StepText) -> bool:
    """Whether a step gives results of windows, not totals."""
    return step.options["type"] == "window" and bool(step.options.keys() & {"size", "gap"})


class Grouping:
    """Compiles the groups and aggregates of one SELECT."""

    def __init__(self, node: Any, relation: Relation, settings: Settings) -> None:
        self._node = node
        self._relation = relation
        self._settings = settings
        self._joined_texts: dict[str, str] = {}
        self._results: dict[str, str] = {}
        """Name of an aggregate that collects texts → the separator with which they are joined."""

    def compile(self) -> Relation:
        """The relation of the groups. Raises ScriptError."""
        group = self._node.args.get("group")
        at = start(group) if group else start(self._node)
        keys = [self._by_alias(key) for one in (group.expressions if group else []) for key in members(one)]
        window, keys = self._find_window(keys)
        names, texts, columns = self._group_keys(keys)
        aggregates, aliases, starts = self._aggregates()
        if window is not None and window.offset:
            window = self._shift(window, at)
        options: dict[str, Any] = {
            "type": "window",
            **(window.options if window else {"emit": "on_change", **self._settings.time_to_live}),
        }
        if names:
            options["group_by"] = names
        options["aggregates"] = aggregates or {"event_count": "count(*)"}
        if window:
            options |= {"emit": "on_change"} if self._settings.emits_changes else self._emit_options("time" in window.options)
        bounds = (
            () if window is None else (*self._window_columns(columns), *self._renamed_bounds(group.expressions if group else []))
        )
        scope = Scope(
            (*columns, *bounds, *(SqlColumn(one, one) for one in aggregates)),
            texts | aliases | self._window_texts(keys, window),
            self._results,
        )
        changed = {} if window else {"changes_at": at}
        warning = _watermark_warning(window, at) if window else None
        self._add(options, at, starts, warning, scope=scope, window=replace(window, closed=True) if window else None, **changed)
        if window is not None and window.offset:
            ends = {name: f"{name} + {_interval(window.offset)}" for name in ("window_start", "window_end")}
            self._add({"type": "set", "fields": ends}, at)
        if window is not None and self._reads_window_time():
            self._add({"type": "set", "fields": {WINDOW_TIME: LAST_MOMENT}}, at)
        if self._joined_texts:
            joined = {name: joined_text(name, separator) for name, separator in self._joined_texts.items()}
            self._add({"type": "set", "fields": joined}, at)
        return self._relation

    def _add(
        self,
        options: dict[str, Any],
        at: int,
        starts: Mapping[tuple[str | int, ...], int] | None = None,
        warning: ScriptError | None = None,
        **changes: Any,
    ) -> None:
        self._relation = self._relation.then(StepText(options, at, starts or {}, warning), is_exact=False, **changes)

    def _shift(self, window: WindowRows, at: int) -> WindowRows:
        """The windows by a time that is earlier by the offset, for which their beginnings are multiples of their length."""
        time = str(window.options["time"])
        field = f"{time}_without_offset"
        self._add({"type": "set", "fields": {field: f"{quoted(time)} - {_interval(window.offset)}"}}, at)
        return replace(window, options={**window.options, "time": field})

    def _by_alias(self, node: Any) -> Any:
        """The expression that a number or an alias of the list of SELECT stands for."""
        from sqlglot import exp

        items = self._node.expressions
        if isinstance(node, exp.Literal) and node.name.isdecimal() and 0 < int(node.this) <= len(items):
            return items[int(node.this) - 1].unalias()
        if isinstance(node, exp.Column) and not node.table:
            known = {one.name.lower() for one in self._relation.columns}
            for item in items:
                if isinstance(item, exp.Alias) and item.alias.lower() == node.name.lower() and node.name.lower() not in known:
                    return item.this
        return node

    def _find_window(self, keys: list[Any]) -> tuple[WindowRows | None, list[Any]]:
        """The window of the groups, and the keys without it."""
        for key in keys:
            if call_name(key) in GROUP_WINDOWS:
                return window_of(key, self._relation.scope), [one for one in keys if one is not key]
        window = self._relation.window
        if window is None:
            return None, keys
        others = [one for one in keys if not self._is_bound(one, window)]
        if len(others) == len(keys):
            return None, keys
        if window.closed:  # windows of results of windows: of the same span
            size = window.spacing
            if size is None:
                raise ScriptError("unsupported-sql", "results of sessions cannot be grouped by their windows", start(keys[0]))
            ends = [one for one in keys if one not in others and self._column(one).field != window.start]
            return WindowRows({"time": window.start, "size": size, "late": window.late}), [*ends, *others]
        if window.session_keys is not None and window.session_keys != {str(one.name).lower() for one in others}:
            hint = "SESSION(TABLE t PARTITION BY key, …) and GROUP BY window_start, window_end, key"
            raise ScriptError(
                "unsupported-sql", "sessions have the keys of GROUP BY, and PARTITION BY has others", start(keys[0]), hint
            )
        return window, others

    def _column(self, node: Any) -> SqlColumn:
        return self._relation.scope.find([part.name for part in node.parts], start(node))

    def _is_bound(self, key: Any, window: WindowRows) -> bool:
        """Whether a key is the beginning or the end of the window in which a row is."""
        if not window.closed:
            return str(key.name).lower() in ("window_start", "window_end", "window_time")
        column = plain_column(key, self._relation.scope)
        return column is not None and column.time == TimeAttribute(0)

    def _group_keys(self, keys: list[Any]) -> tuple[list[str], dict[str, str], tuple[SqlColumn, ...]]:
        """Names of the group's fields, texts of expressions that they hold, and their columns; computed keys are set before."""
        from sqlglot import exp

        names: list[str] = []
        texts: dict[str, str] = {}
        columns: list[SqlColumn] = []
        computed: dict[str, str] = {}
        at = 0
        for number, key in enumerate(keys):
            if isinstance(key, (exp.Column, exp.Dot)) and text_key(key) not in self._relation.scope.aliases:
                column = self._column(key)
                name = column.field
                if name in ("window_start", "window_end"):  # names of the results' own bounds
                    computed[name := f"of_{name}"] = column.field
                is_end = column.time == TimeAttribute(0)  # of the windows before, which has the window's span as well
                columns.append(replace(column, field=name, time=column.time if is_end else None))
            else:
                name = self._alias_of(key) or f"group_{number + 1}"
                computed[name] = spark_text(key, self._relation.scope)
                texts[text_key(key)] = name
                columns.append(SqlColumn(name, name))
                at = at or start(key)
            names.append(name)
        if computed:
            self._add({"type": "set", "fields": computed}, at)
        return names, texts, tuple(columns)

    def _alias_of(self, node: Any) -> str | None:
        taken = {one.field.lower() for one in self._relation.columns}
        for item in self._node.expressions:
            if item.alias and item.unalias() == node and item.alias.lower() not in taken:
                return str(item.alias)
        return None

    def _aggregates(self) -> tuple[dict[str, str], dict[str, str], dict[tuple[str | int, ...], int]]:
        """Name → aggregate, text of an aggregate → name, and where each stands."""
        found: dict[str, str] = {}
        names: dict[str, str] = {}
        starts: dict[tuple[str | int, ...], int] = {}
        having = self._node.args.get("having")
        for item in [*self._node.expressions, *([having.this] if having else [])]:
            for call in find_aggregates(item.unalias()):
                text = text_key(call)
                if text in names:
                    continue
                name = (
                    item.alias
                    if item.alias and item.unalias() is call and item.alias not in found
                    else f"aggregate_{len(found) + 1}"
                )
                names[text] = name
                if call_name(unfiltered(call)) in ("concat_agg", "listagg"):
                    found[name], self._joined_texts[name] = collected_texts(call, self._relation.scope)
                else:
                    made = aggregate_text(call, self._relation.scope)
                    found[name] = made.text
                    found |= {f"{name}_{suffix}": text for suffix, text in made.more.items()}
                    if result := made.finish(name):
                        self._results[name] = result
                starts["aggregates", name] = start(call)
        return found, names, starts

    @staticmethod
    def _window_columns(keys: Sequence[SqlColumn]) -> Iterator[SqlColumn]:
        """The bounds of the results, unless a key is a bound of the windows before."""
        fields = {"window_start": "window_start", "window_end": "window_end", WINDOW_TIME: WINDOW_TIME}
        taken = {key.name for key in keys}
        return (SqlColumn(name, field, "timestamp", TimeAttribute(0)) for name, field in fields.items() if name not in taken)

    def _renamed_bounds(self, keys: list[Any]) -> list[SqlColumn]:
        """Keys that are bounds of the windows before, under their names."""
        window = self._relation.window
        if window is None or not window.closed:
            return []
        found = [
            column for key in keys if (column := plain_column(key, self._relation.scope)) and column.time == TimeAttribute(0)
        ]
        return [replace(one, field="window_start") for one in found if one.field == window.start and one.name != "window_start"]

    def _window_texts(self, keys: list[Any], window: WindowRows | None) -> dict[str, str]:
        """Texts such as ``tumble_start(t, …)`` → the field with that bound."""
        found: dict[str, str] = {}
        if window is None:
            return found
        for node in self._node.walk():
            name = call_name(node)
            for ending, bound in _ENDS.items():
                if name.endswith(ending) and name.removesuffix(ending) in GROUP_WINDOWS:
                    found[text_key(node)] = bound
            if name.removesuffix("_rowtime").removesuffix("_proctime") in GROUP_WINDOWS and name.endswith("time"):
                found[text_key(node)] = WINDOW_TIME
        return found

    def _reads_window_time(self) -> bool:
        """Whether the query names the last moment of its windows."""
        from sqlglot import exp

        return any(
            call_name(node).endswith(("_rowtime", "_proctime"))
            or (isinstance(node, exp.Column) and node.name.lower() == WINDOW_TIME)
            for node in self._node.walk()
        )

    def _emit_options(self, has_time: bool) -> dict[str, Any]:
        """The option ``emit``; windows by the time of reading have no late events."""
        entries: list[Any] = []
        for delay in self._settings.emit:
            if delay.is_before:
                entries.append({"every": duration(delay.seconds)} if delay.seconds else "on_change")
            elif has_time:
                late: dict[str, Any] = {"for": duration(self._settings.late or 3600)}
                entries.append({"late": late | ({"every": duration(delay.seconds)} if delay.seconds else {})})
        return {"emit": ["on_close", *entries]} if entries else {}


def members(key: Any) -> list[Any]:
    """The keys in an entry of GROUP BY: those in brackets, of which there may be none."""
    from sqlglot import exp

    if isinstance(key, exp.Tuple):
        return list(key.expressions)
    return [key.this] if isinstance(key, exp.Paren) else [key]


def _interval(seconds: float) -> str:
    """Seconds as an interval of Spark."""
    return f"INTERVAL {round(seconds * 1000)} MILLISECONDS" if seconds % 1 else f"INTERVAL {int(seconds)} SECONDS"


def _watermark_warning(window: WindowRows, at: int) -> ScriptError | None:
    """That nothing says how late events of a window may be."""
    name = window.without_watermark
    if name is None:
        return None
    hint = f"declare it in the table: WATERMARK FOR {name} AS {name} - INTERVAL '5' SECOND"
    return ScriptError("missing-watermark", f"{name!r} has no WATERMARK: its events may be 10 seconds late", at, hint)
