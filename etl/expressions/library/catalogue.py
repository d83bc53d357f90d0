"""The table of the library's functions. The modules of a dialect are imported when one of its functions is looked up."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from importlib import import_module

from etl.expressions.library.function import PREFIXES, LibraryFunction
from etl.expressions.signatures.spark_names import FUNCTIONS as SPARK_FUNCTIONS

_MODULES: Mapping[str, tuple[str, ...]] = {
    "own": (
        "own.addresses",
        "own.arrays",
        "own.encodings",
        "own.fields",
        "own.ip_functions",
        "own.parser_functions",
        "own.quantities",
        "own.texts",
        "own.user_agents",
    ),
    "flink": (
        "flink.operators",
        "flink.casts",
        "flink.numbers",
        "flink.text_search",
        "flink.texts",
        "flink.like_patterns",
        "flink.patterns",
        "flink.encodings",
        "flink.times.texts",
        "flink.times.units",
        "flink.array_aggregates",
        "flink.arrays",
        "flink.constructors",
        "flink.maps",
        "flink.json.functions",
        "flink.json.writing",
        "flink.unnesting",
        "flink.intervals",
        "flink.clock",
        "flink.type_descriptions",
    ),
    "rsql": (
        "rsql.conditions",
        "rsql.json_rows",
        "rsql.json_values",
        "rsql.numbers",
        "rsql.regexes",
        "rsql.text_codes",
        "rsql.text_conversions",
        "rsql.text_parts",
        "rsql.texts",
        "rsql.time_parts",
        "rsql.times",
        "rsql.wholes",
    ),
}
"""Dialect → the modules of `etl.expressions.library` with its functions, each with a tuple ``FUNCTIONS``."""


@cache
def functions(dialect: str) -> Mapping[str, LibraryFunction]:
    """The functions of a dialect (own, flink, rsql), by name."""
    modules = (import_module(f"etl.expressions.library.{name}") for name in _MODULES[dialect])
    return {function.name: function for module in modules for function in module.FUNCTIONS}


def find(name: str) -> LibraryFunction | None:
    """Find the function with this name in lower case; None if there is none."""
    prefix = next((prefix for prefix in PREFIXES if name.startswith(prefix)), None)
    return functions(PREFIXES[prefix] if prefix else "own").get(name)


def script_function(name: str) -> str:
    """The function that a name means in a script: Flink's, else Spark's, else that of RocketMQ Streams."""
    name = name.lower()
    if name in same_as_spark():
        return same_as_spark()[name]
    if f"flink_{name}" in functions("flink"):
        return f"flink_{name}"
    return f"rsql_{name}" if name not in SPARK_FUNCTIONS and f"rsql_{name}" in functions("rsql") else name


def all_functions() -> tuple[LibraryFunction, ...]:
    """All functions, dialect by dialect, sorted by name."""
    return tuple(function for dialect in _MODULES for _, function in sorted(functions(dialect).items()))


def script_names(name: str) -> tuple[str, ...]:
    """Return the functions that scripts call by this name; for an unknown name with a prefix, the nearest one."""
    exact = tuple(prefix + name for prefix, dialect in PREFIXES.items() if prefix + name in functions(dialect))
    if exact or not name.startswith(tuple(PREFIXES)):
        return exact
    from difflib import get_close_matches

    dialect = next(dialect for prefix, dialect in PREFIXES.items() if name.startswith(prefix))
    return tuple(get_close_matches(name, functions(dialect), n=1, cutoff=0.7))


def names_in_scripts() -> Mapping[str, str]:
    """The names that only scripts have, in lower case → the functions of expressions."""
    return {
        name.removeprefix(prefix): name for prefix, dialect in reversed(list(PREFIXES.items())) for name in functions(dialect)
    }


def same_as_spark() -> Mapping[str, str]:
    """Functions of Flink that are equal to one of Spark: name in scripts → Spark's name, both in lower case."""
    from etl.expressions.library.flink.names import SAME_AS_SPARK

    return SAME_AS_SPARK


def unsupported_functions() -> Mapping[str, str]:
    """Functions of Flink that Sluice does not have → the reason."""
    from etl.expressions.library.flink.names import UNSUPPORTED

    return UNSUPPORTED
