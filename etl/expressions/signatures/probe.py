"""Probes Spark's analyser for the argument and result types of each function, operator and cast: `signatures.json`.

Refresh the file after an update of Spark:
``python -m etl.expressions.signatures.probe etl/expressions/signatures/signatures.json``.

Nothing is computed: expressions over columns and constants of known types are analysed only. One and two arguments are probed
with every combination of types; of more arguments, each is varied alone around the combinations that Spark accepts.
"""

from __future__ import annotations

import json
import logging
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Any

from etl.expressions.signatures.types import (
    ARRAY_ELEMENTS,
    BY_VALUE,
    CAST_TARGETS,
    CODES,
    COMBINED_IN_PAIRS,
    COMBINED_IN_THREES,
    CONSTANT_INT,
    CONSTANT_TEXT,
    MAX_PROBED,
    OPERATORS,
    ProbeResults,
)

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_BATCH = 200
"""Expressions that are analysed in one statement."""
_MAX_VARIED = 12
"""Accepted combinations around which each argument is varied alone."""

_MULTI_ROW_GROUPS = ("agg_funcs", "window_funcs", "generator_funcs")
"""Spark's groups of functions of several rows."""

_TEXTS = ("'1'", "'year'", "'a INT'", "'UTF-8'", "'2020-01-01'", "'UTC'", "'{\"a\":1}'", "'$.a'", "'MM'", "'1 day'", "'SHA-256'")
"""Constants that are tried where a text is expected."""
_TEXTS_OF_TWO, _TEXTS_OF_MORE = 4, 3
"""How many of them are tried for functions of two and of more arguments."""

_CONSTANTS = (CONSTANT_TEXT, CONSTANT_INT)


class Probe:
    """A Spark session whose analyser is probed with expressions."""

    def __init__(self, session: SparkSession) -> None:
        self.session = session
        columns = ", ".join(f"cast(null as {name}) as c{at}" for at, name in enumerate(CODES) if name not in _CONSTANTS)
        session.sql(f"select {columns}").createOrReplaceTempView("typed_columns")
        state = session._jsparkSession.sessionState()
        self._parser, self._analyzer = state.sqlParser(), state.analyzer()
        self._column = {name: f"c{at}" for at, name in enumerate(CODES)}

    def names(self) -> tuple[list[str], list[str]]:
        """Names of functions of one row, and of functions of several rows."""
        assert self.session._jvm is not None
        listed = self.session._jvm.org.apache.spark.sql.api.python.PythonSQLUtils.listBuiltinFunctionInfos()
        groups = {info.getName(): info.getGroup() for info in listed if info.getName().isidentifier()}
        shown = {row[0] for row in self.session.sql("show system functions").collect() if row[0].isidentifier()}
        groups |= dict.fromkeys(shown - groups.keys(), "table")
        names = sorted(groups)
        many = [name for name in names if groups[name] in (*_MULTI_ROW_GROUPS, "table") and name not in _GRAMMAR]
        single = [name for name in names if name not in many and name not in _GRAMMAR and not name.startswith(_SKETCHES)]
        return single, many

    def signatures(self, name: str) -> dict[str, Any]:
        """Number of arguments → accepted types and result type; empty if unknown."""
        templates = {count: f"{name}({', '.join(['{}'] * count)})" for count in range(MAX_PROBED + 1)}
        counts = [count for count, template in templates.items() if not self._arity_is_wrong(template, count)]
        found: dict[str, Any] = {}
        shorter: list[tuple[str, ...]] = []
        for count in counts:
            if count > 3 and counts[-1] == MAX_PROBED:  # variadic: three arguments show the rule
                found[str(count)] = {}
                continue
            tried = self._try_combinations(templates[count], count, shorter)
            found[str(count)] = tried.as_json(name) if tried else {}
            shorter = _sample(list(tried.results), _MAX_VARIED) if tried else []
        return found

    def operator(self, template: str) -> dict[str, Any]:
        """The same for an operator or cast, written with ``{}`` for its operands."""
        count = template.count("{}")
        tried = self._try_combinations(template, count, [])
        return {str(count): tried.as_json()} if tried else {}

    def _try_combinations(self, template: str, count: int, shorter: Sequence[tuple[str, ...]]) -> ProbeResults | None:
        results: dict[tuple[str, ...], str] = {}
        self._record(results, self._probe(template, _combinations(count, shorter)))
        if count > 1:
            for around in _sample(list(results), _MAX_VARIED):
                self._record(results, self._probe(template, (codes for codes in _vary(around) if codes not in results)))
        return ProbeResults(count, results) if results else None

    def _record(self, results: dict[tuple[str, ...], str], answers: Iterable[tuple[tuple[str, ...], str]]) -> None:
        """Record result types; a type that depends on the value of a constant is unknown."""
        for codes, type_ in answers:
            results[codes] = type_ if results.get(codes, type_) == type_ else BY_VALUE

    def _arity_is_wrong(self, template: str, count: int) -> bool:
        try:
            self._analyse([template.format(*["null"] * count)])
        except Exception as error:
            return "WRONG_NUM_ARGS" in str(error) or "REQUIRED_PARAMETER" in str(error)
        return False

    def _probe(self, template: str, combinations: Iterable[tuple[str, ...]]) -> Iterator[tuple[tuple[str, ...], str]]:
        batch: list[tuple[tuple[str, ...], str]] = []
        for codes in combinations:
            texts = _TEXTS if len(codes) == 1 else _TEXTS[:_TEXTS_OF_TWO] if len(codes) == 2 else _TEXTS[:_TEXTS_OF_MORE]
            batch += [(codes, template.format(*arguments)) for arguments in self._write_arguments(codes, texts)]
            if len(batch) >= _BATCH:
                yield from self._types_of_calls(batch)
                batch = []
        yield from self._types_of_calls(batch)

    def _write_arguments(self, codes: Sequence[str], texts: Sequence[str]) -> Iterator[tuple[str, ...]]:
        choices = {CONSTANT_TEXT: texts, CONSTANT_INT: ("1",)}
        if len(codes) > 2:  # all constants are equal; the other combinations vary them
            for text in texts if CONSTANT_TEXT in codes else ("",):
                yield tuple({CONSTANT_TEXT: text, CONSTANT_INT: "1"}.get(code) or self._column[code] for code in codes)
            return
        yield from product(*(choices.get(code, (self._column[code],)) for code in codes))

    def _types_of_calls(self, calls: Sequence[tuple[tuple[str, ...], str]]) -> Iterator[tuple[tuple[str, ...], str]]:
        if not calls:
            return
        try:
            good = self._resolve([text for _, text in calls])
            types = self._types([calls[at][1] for at in good]) if good else []
        except Exception:
            if len(calls) > 1:
                middle = len(calls) // 2
                yield from self._types_of_calls(calls[:middle])
                yield from self._types_of_calls(calls[middle:])
            return
        yield from ((calls[at][0], type_) for at, type_ in zip(good, types, strict=True))

    def _analyse(self, texts: Sequence[str]) -> Any:
        columns = ", ".join(f"{text} as r{at}" for at, text in enumerate(texts))
        return self._analyzer.execute(self._parser.parsePlan(f"select {columns} from typed_columns"))

    def _resolve(self, texts: Sequence[str]) -> list[int]:
        """Indexes of the expressions that the analyser resolves: unresolved ones print with a leading quote."""
        shown = self._analyse(texts).output().mkString("|").split("|")
        return [at for at, name in enumerate(shown) if not name.startswith("'")]

    def _types(self, texts: Sequence[str]) -> list[str]:
        plan = self._analyse(texts)
        return [field["type"] for field in _fields(json.loads(plan.schema().json()))]


_GRAMMAR = frozenset(
    ("and", "or", "not", "in", "case", "when", "between", "div", "cast", "reflect", "java_method", "try_reflect")
)
"""Names in SHOW FUNCTIONS that are operators or never allowed."""


_SKETCHES = ("kll_", "tuple_", "theta_", "hll_", "st_", "approx_top_k_")
"""Prefixes of functions of sketches and geometries, which are not probed: a fifth of all functions, rarely used on events."""


def _combinations(count: int, shorter: Sequence[tuple[str, ...]]) -> Iterator[tuple[str, ...]]:
    if count <= 1:
        yield from product(CODES, repeat=count)
    elif count <= 3:
        yield from product(COMBINED_IN_PAIRS if count == 2 else COMBINED_IN_THREES, repeat=count)
        for type_ in ARRAY_ELEMENTS:
            yield from product((f"array<{type_}>", type_, CONSTANT_INT), repeat=count)
        yield from _with_equal_types(count) if count == 3 else ()
    else:
        yield from ((*codes, code) for codes in shorter for code in COMBINED_IN_THREES)
        yield from ((code,) * count for code in CODES)


def _with_equal_types(count: int) -> Iterator[tuple[str, ...]]:
    """Combinations in which some arguments have one type, as in ``if(boolean, date, date)``."""
    for code in CODES:
        for same in product((True, False), repeat=count):
            if sum(same) > 1:
                yield from product(*((code,) if fixed else (CONSTANT_TEXT, CONSTANT_INT, "boolean") for fixed in same))


def _sample(combinations: Sequence[tuple[str, ...]], size: int) -> list[tuple[str, ...]]:
    """A sample of about this size, evenly distributed."""
    return list(combinations[:: max(1, len(combinations) // size)])


def _vary(codes: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
    """The combinations with one other type."""
    for at in range(len(codes)):
        for code in CODES:
            yield (*codes[:at], code, *codes[at + 1 :])


def _fields(struct: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    yield from ({**field, "type": _sql(field["type"])} for field in struct["fields"])


def _sql(type_: Any) -> str:
    """Spark's JSON of a type → its name in SQL."""
    if isinstance(type_, str):
        return {"integer": "int", "long": "bigint", "short": "smallint", "byte": "tinyint"}.get(type_, type_)
    if type_["type"] == "array":
        return f"array<{_sql(type_['elementType'])}>"
    if type_["type"] == "map":
        return f"map<{_sql(type_['keyType'])},{_sql(type_['valueType'])}>"
    if type_["type"] == "struct":
        return "struct<" + ",".join(f"{field['name']}:{_sql(field['type'])}" for field in type_["fields"]) + ">"
    return "unknown"


def probe(session: SparkSession, names: Iterable[str] | None = None) -> dict[str, Any]:
    """The content of `signatures.json`, or its part for these names."""
    probe = Probe(session)
    functions, many = probe.names()
    templates = {
        **OPERATORS,
        **{f"{how} {target}": f"{how}({{}} as {target})" for how in ("cast", "try_cast") for target in CAST_TARGETS},
    }
    requested = set(names) if names is not None else {*functions, *templates}
    found = {name: probe.signatures(name) for name in functions if name in requested}
    found |= {name: probe.operator(template) for name, template in templates.items() if name in requested}
    return {"many_rows": many, "signatures": found}


def write(found: Mapping[str, Any]) -> str:
    """JSON with a line for each name, so that differences are readable."""
    lines = ",\n".join(
        f"{json.dumps(name)}: {json.dumps(value, separators=(',', ':'))}" for name, value in found["signatures"].items()
    )
    return f'{{"many_rows": {json.dumps(found["many_rows"])},\n"signatures": {{\n{lines}\n}}}}\n'


def _main(path: str) -> None:
    from pyspark.sql import SparkSession

    session = (
        SparkSession.builder.master("local[1]")
        .config("spark.ui.enabled", "false")
        .config("spark.sql.catalogImplementation", "in-memory")
        .getOrCreate()
    )
    logging.disable()  # otherwise each refused expression logs a stack trace
    session.sparkContext.setLogLevel("OFF")
    Path(path).write_text(write(probe(session, sys.argv[2:] or None)), "utf-8")
    session.stop()


__all__ = ["Probe", "probe", "write"]

if __name__ == "__main__":
    _main(sys.argv[1])
