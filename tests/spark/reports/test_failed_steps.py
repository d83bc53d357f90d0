"""Finding the step in which a value failed, from the expression that Spark quotes."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import functions
from running import Engine, Etl

from etl.api import EtlError, SparkStep, Step
from etl.plan.segments import StepNode
from etl.spark.reports.errors import explain_error
from etl.steps import null_on_error
from etl.steps.convert import Convert
from etl.steps.filter import Filter
from etl.steps.set import Set
from etl.steps.sql import Sql

FIELDS = pa.schema([("message", pa.string()), ("n", pa.int64())])
CAST = "[CAST_INVALID_INPUT] The value 'abc' cannot be cast to \"INT\" because it is malformed. SQLSTATE: 22018\n"


def node(number: int, step: Step, **options: tuple[int, int]) -> StepNode:
    locations: dict[tuple[str | int, ...], tuple[int, int]] = {tuple(name.split("__")): at for name, at in options.items()}
    return StepNode(f"s[{number}] {step.type}", step, FIELDS, FIELDS, location=(number + 3, 5), options=locations)


def computed(step: Step) -> Step:
    """What Spark computes for a step."""
    first = step.parts(FIELDS)[0]
    return first if isinstance(first, SparkStep) else computed(first)


STEPS = (
    node(0, computed(Filter(where="soundex(message) = 'x' or cast(message as int) > 3")), where=(3, 21)),
    node(
        1,
        computed(Set.model_validate({"fields": {"x": "1 + cast(\nmessage as int) + length(soundex(message))"}})),
        fields__x=(4, 30),
    ),
    node(
        2,
        computed(Sql(query="select soundex(message) as a, cast(message as int) - length(soundex(message)) as b from events")),
        query=(5, 20),
    ),
    node(3, Convert.model_validate({"fields": {"message": "decimal(5,2)"}})),
)


@pytest.mark.parametrize(
    ("context", "end"),
    [
        (
            "== SQL (line 1, position 27) ==\nsoundex(`message`) = 'x' or cast(`message` as int) > 3\n"
            "                            ^^^^^^^^^^^^^^^^^^^^^^\n",
            "it is cast(`message` as int) in s[0] filter where (line 3, column 21)",
        ),
        (
            "== SQL (line 1, position 5) ==\n1 + cast(\n    ^^^^^\n`message` as int)\n^^^^^^^^^^^^^^^^^\n",
            "it is cast( in s[1] set fields.x (line 4, column 30)",
        ),
        (
            "== SQL (line 1, position 1) ==\ncast(`message` as int) - length(soundex(`message`))\n^^^^^^^^^^^^^^^^^^^^^^\n",
            "it is cast(`message` as int) in s[2] sql query (line 5, column 20)",
        ),
        ('== DataFrame ==\n"cast" was called from\n/x/etl/steps/convert.py:88\n', "it is in s[3] convert (line 6, column 5)"),
        ("", "Spark computes s[0] filter (line 3, column 5), s[1] set (line 4, column 5), s[2] sql"),
    ],
    ids=["filter", "set", "sql", "convert", "nothing quoted"],
)
def test_the_step_is_found_by_the_quoted_expression(context: str, end: str, tmp_path: Path) -> None:
    error = explain_error("main", Exception(CAST + context), tmp_path, steps=STEPS)

    assert f"(CAST_INVALID_INPUT); {end}" in str(error)


@pytest.mark.spark
def test_the_error_for_a_value_names_the_option(engine: Engine, etl: Etl, monkeypatch: pytest.MonkeyPatch) -> None:
    """No known function ends a run for a value: a Spark of the future may have one."""
    monkeypatch.setattr(null_on_error._Tries, "try_struct", lambda tries, *values: functions.struct(*values))
    (etl.folder / "in.log").write_text("abc\n")

    with pytest.raises(EtlError) as raised:
        engine("""
            source: {type: file, path: "{here}/*.log"}
            steps:
              - {type: filter, where: "soundex(message) is not null"}
              - {type: set, fields: {a: soundex(message), b: "soundex(substr('##', cast(message as int)))"}}
            sink: {type: file, path: "{here}/out.json"}
        """)

    assert "it is cast(`message` as int) in steps[1] set fields.b (line 5, column 47)" in str(raised.value)
