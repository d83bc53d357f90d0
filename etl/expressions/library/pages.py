"""Pages of the reference with all functions of expressions, and one function's description for the terminal."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from decimal import Decimal
from typing import Any

from etl.expressions.library import catalogue
from etl.expressions.library.function import LibraryFunction
from etl.expressions.signatures.lookup import many_rows
from etl.expressions.signatures.refused_functions import REFUSED
from etl.expressions.signatures.spark_names import CODE_RUNNERS
from etl.expressions.signatures.spark_names import FUNCTIONS as SPARK_FUNCTIONS

_LANES = (
    "All of them run on Arrow. *Value by value* says that Python computes the function once for each distinct value of a batch, "
    "because Arrow has no function for it.\n"
)

_TITLES = {
    "own": ("Our own functions", "They have the same names in expressions of YAML and in SQL scripts.\n"),
    "flink": (
        "Functions of Flink SQL",
        "A SQL script calls them by Flink's names, without `flink_`; operators and casts become calls of them where Flink's "
        "meaning is not Spark's. `etl convert` prints the names with `flink_`, which expressions of YAML may use as well.\n",
    ),
    "rsql": (
        "Functions of RocketMQ Streams' scripts",
        "A script calls them by their own names, without `rsql_`; expressions of YAML by the names here.\n",
    ),
}


def function_pages() -> Iterator[tuple[str, str, str]]:
    """Path, title and text of each page."""
    for dialect, (title, text) in _TITLES.items():
        listed = sorted(catalogue.functions(dialect).values(), key=lambda function: function.name)
        if listed:
            more = _aliases() if dialect == "flink" else []
            yield f"functions/{dialect}.md", title, "\n".join([text, _LANES, *_table(listed), *more]) + "\n"
    yield "functions/spark.md", "Functions of Spark SQL", "\n".join(_spark_page()) + "\n"


def _table(listed: Iterable[LibraryFunction]) -> Iterator[str]:
    yield "| Function | Gives | What it does | Null | Errors | Example |"
    yield "|---|---|---|---|---|---|"
    for one in listed:
        about = one.about + (" *Value by value.*" if one.loops else "")
        cells = (f"`{one.call}`", one.result, about, one.null, one.errors, f"`{one.example}` → `{show(one.gives)}`")
        yield "| " + " | ".join(cell.replace("|", "\\|").replace("\n", "\\n") for cell in cells) + " |"


def _aliases() -> list[str]:
    same = catalogue.same_as_spark()
    if not same:
        return []
    rows = [f"| `{name}` | `{spark}` |" for name, spark in sorted(same.items())]
    missing = [f"| `{name}` | {why} |" for name, why in sorted(catalogue.unsupported_functions().items())]
    return [
        "",
        "## Equal to Spark's",
        "",
        "These have Spark's meaning, so that a script's call becomes one of the function at the right.",
        "",
        "| In scripts | In YAML |",
        "|---|---|",
        *rows,
        "",
        "## Not here",
        "",
        "| Flink's function | Why |",
        "|---|---|",
        *missing,
    ]


def _spark_page() -> Iterator[str]:
    from etl.expressions.calls.functions import FUNCTIONS

    names = sorted(SPARK_FUNCTIONS - many_rows() - CODE_RUNNERS - REFUSED)
    yield "Expressions of YAML may call them; their meaning is in Spark's documentation.\n"
    yield "## On Arrow\n"
    yield "The result is exactly Spark's. Some need constants for some arguments; `etl explain` says where Spark is needed.\n"
    yield ", ".join(f"`{name}`" for name in names if name in FUNCTIONS) + "\n"
    yield "## In Spark\n"
    yield "A step that calls one of these is computed by Spark.\n"
    yield ", ".join(f"`{name}`" for name in names if name not in FUNCTIONS)


def describe(function: LibraryFunction) -> list[str]:
    """The description of a function for the terminal: lines."""
    arguments = [f"  {part.strip()}" for part in function.arguments.split(",") if part.strip()] or ["  none"]
    lane = "Arrow" + (", value by value in Python" if function.loops else "")
    return [
        function.about,
        "",
        "Arguments",
        *arguments,
        "",
        f"Gives     {function.result}",
        f"Null      {function.null}",
        f"Errors    {function.errors}",
        f"Runs on   {lane}",
        f"Example   {function.example} → {show(function.gives)}",
    ]


def show(value: Any) -> str:
    """A value as the reference shows it: JSON, and texts of times and decimals."""
    if isinstance(value, bytes):
        return value.hex()
    if isinstance(value, Decimal):
        return str(value)
    return json.dumps(value, ensure_ascii=False, default=str)
