"""The user's functions in this process, on one thread: prints ratios to built-in ones and events a CPU second, as JSON."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any

import pyarrow as pa

from etl.api import OFFSET, TIMESTAMP
from etl.expressions import compile_expression
from etl.steps.python import Python
from etl.udf.declaration import CodeFile, UserFunction, with_functions
from etl.udf.parameters import FunctionDeclaration
from etl.udf.signature import read_function

EVENTS = 32_768
TIMES = 25

CODE = """
import pyarrow as pa
import pyarrow.compute as pc


def own_trim(text: pa.StringArray) -> pa.StringArray:
    return pc.utf8_trim(text, " ")


def own_replace(text: pa.StringArray) -> pa.StringArray:
    return pc.replace_substring_regex(text, "[0-9]+", "#")


def own_sqrt(number: pa.DoubleArray) -> pa.DoubleArray:
    return pc.sqrt(number)


def lowered(text: str) -> str:
    return text.lower()


def scored(event: dict) -> dict:
    return {"score": event["bytes"] / 1000, "label": event["user_name"]}


def scored_batch(batch: pa.RecordBatch) -> pa.RecordBatch:
    score = pc.divide(batch["bytes"].cast(pa.float64()), 1000)
    return pa.record_batch({"score": score, "label": batch["user_name"]})
"""

PAIRS: Mapping[str, tuple[str, str]] = {
    "trim": ("trim(user_name)", "own_trim(user_name)"),
    "regexp_replace": ("regexp_replace(path, '[0-9]+', '#')", "own_replace(path)"),
    "sqrt": ("sqrt(bytes)", "own_sqrt(cast(bytes as double))"),
}
"""Name → the built-in function and the own one."""


def main() -> None:
    """All of them."""
    batch = _events()
    incoming = pa.schema([field for field in batch.schema if field.name != OFFSET])
    functions = _functions()

    def evaluating(text: str) -> Callable[[], object]:
        evaluate = compile_expression(with_functions(text, functions.values()), incoming)
        return lambda: evaluate(batch)

    def stepping(function: str, **options: Any) -> Callable[[], object]:
        given = {"type": "python", "function": function, "fields": {"score": "double", "label": "string"}, **options}
        run = Python.model_validate(given).with_functions(functions).open(incoming)
        return lambda: run(batch)

    ratios = {}
    for name, (built_in, own) in PAIRS.items():
        one, other = _best(evaluating(built_in), evaluating(own))
        ratios[name] = other / one
    rates = _best(
        stepping("scored"), stepping("scored", read=["user_name", "bytes"]), stepping("scored_batch"), evaluating("lowered(path)")
    )
    named = dict(zip(("dicts", "read", "batches", "values"), (EVENTS / seconds for seconds in rates), strict=True))
    print(json.dumps({"events": EVENTS, "times": TIMES, "ratios": ratios, **named}))


def _functions() -> dict[str, UserFunction]:
    code = CodeFile("functions.py", CODE)
    names = ("own_trim", "own_replace", "own_sqrt", "lowered", "scored", "scored_batch")
    found = {name: read_function(FunctionDeclaration(name, code, name)) for name in names}
    return {name: one for name, one in found.items() if isinstance(one, UserFunction)}


def _events() -> pa.RecordBatch:
    numbers = range(EVENTS)
    return pa.record_batch(
        {
            "user_name": pa.array([f" user{number % 1000}-{number} " for number in numbers]),
            "path": pa.array([f"/shop/{number}/item/{number % 77}" for number in numbers]),
            "address": pa.array([f"10.0.{number % 256}.{number % 100}" for number in numbers]),
            "bytes": pa.array(numbers, pa.int64()),
            "status": pa.array([200] * EVENTS, pa.int32()),
            "at": pa.array([datetime(2026, 1, 1, tzinfo=UTC)] * EVENTS, TIMESTAMP),
            OFFSET: pa.array(numbers, pa.int64()),
        }
    )


def _best(*runs: Callable[[], object]) -> list[float]:
    """The CPU seconds of each, the best of some turns."""
    for run in runs:
        run()
    times = [[_seconds(run) for run in runs] for _ in range(TIMES)]
    return [min(one) for one in zip(*times, strict=True)]


def _seconds(run: Callable[[], object]) -> float:
    began = time.thread_time()
    run()
    return time.thread_time() - began


if __name__ == "__main__":
    main()
