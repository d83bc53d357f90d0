"""The processor `foreach` of ingest pipelines: expressions on lists, and what is said of other loops."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import pytest
import yaml
from ingest_steps import imported, steps
from running import Etl

from etl.config.cases.case_file import inspect_tests
from etl.running.shared_session import SharedSession
from etl.testing.on_spark import run_on
from etl.testing.results import result

PARTS = {"split": {"field": "message", "target_field": "parts", "separator": ","}}


def loop(field: str, name: str, /, **options: Any) -> dict[str, Any]:
    return {"foreach": {"field": field, "processor": {name: options}}}


LOOPS = [
    PARTS,
    *({"set": {"field": name, "copy_from": "parts"}} for name in ("trimmed", "numbers", "marked")),
    {"set": {"field": "more", "value": ["a"]}},
    loop("trimmed", "trim", field="_ingest._value", **{"if": "ctx._ingest._value != ' b '"}),
    loop("numbers", "convert", field="_ingest._value", type="long", ignore_failure=True),
    loop("marked", "set", field="_ingest._value", value="<{{_ingest._value}}>"),
    loop("parts", "set", field="last", value="{{{_ingest._value}}}!"),
    loop("parts", "set", field="first", copy_from="_ingest._value", override=False),
    loop("parts", "uppercase", field="_ingest._value", target_field="upper"),
    loop("parts", "append", field="made", value="x{{_ingest._value}}", **{"if": "ctx._ingest._value.length() == 1"}),
    loop("parts", "append", field="more", value="{{_ingest._value}}"),
]


def test_a_loop_is_an_expression_on_the_list(etl: Etl, shared_session: SharedSession, tmp_path: Path) -> None:
    (tmp_path / "loops.yml").write_text(yaml.safe_dump({"processors": LOOPS}))
    made = etl.here("import", "loops.yml")
    lists = {
        "parts": ["a", " b ", "7"],
        "trimmed": ["a", " b ", "7"],
        "numbers": [None, None, 7],
        "marked": ["<a>", "< b >", "<7>"],
    }
    texts = {"last": "7!", "first": "a", "upper": "7", "made": ["xa", "x7"], "more": ["a", "a", " b ", "7"]}
    cases = {"tests": {"loops": {"input": ["a, b ,7"], "expect": [{"message": "a, b ,7", **lists, **texts}]}}}
    (tmp_path / "job.yaml").write_text(made.out + yaml.safe_dump(cases))
    suite = inspect_tests(tmp_path / "job.yaml").suite
    assert suite is not None, made.out
    (tested,) = [result(suite, case, partial(run_on, shared_session)) for case in suite.cases]  # Spark computes lambdas

    assert made.err.startswith("13 of 13"), made.err
    assert tested.passed, "\n".join(tested.lines())


@pytest.mark.parametrize(
    ("made", "construct", "reason"),
    [
        (loop("parts", "grok", field="_ingest._value", patterns=["x"]), "processors[1].foreach", "a loop with grok"),
        (
            loop("parts", "rename", field="_ingest._value.a", target_field="_ingest._value.b"),
            "processors[1].foreach",
            "members of objects",
        ),
        (
            loop("parts", "append", field="a", value=["x", "{{_ingest._value}}"]),
            "processors[1].foreach",
            "several values for each item",
        ),
        (loop("parts", "trim", field="_ingest._value", on_failure=[]), "", ""),
        (
            loop("parts", "trim", field="_ingest._value", on_failure=[{"drop": {}}]),
            "processors[1].foreach.processor.trim.on_failure",
            "an option without a counterpart in a loop",
        ),
        (
            loop("parts", "convert", field="_ingest._value", type="auto"),
            "processors[1].foreach.processor.convert.type",
            "auto gives the value of each event a type of its own",
        ),
        (
            {"foreach": {"field": "message", "processor": {"trim": {"field": "_ingest._value"}}}},
            "processors[1].foreach",
            "no list",
        ),
    ],
)
def test_what_a_loop_cannot_do_is_said_at_its_place(made: Any, construct: str, reason: str) -> None:
    left = imported(PARTS, made).report.left

    assert [one.construct for one in left] == ([construct] if construct else [])
    assert all(reason in one.reason for one in left)


def test_items_that_cannot_be_converted_go_to_the_handlers() -> None:
    handled = {
        **loop("parts", "convert", field="_ingest._value", type="long")["foreach"],
        "on_failure": [{"set": {"field": "e", "value": 1}}],
    }

    found = [step["fields"] for step in steps(PARTS, {"foreach": handled}) if step["type"] == "set"]

    assert "exists(parts, x -> x is not null and try_cast(x as bigint) is null)" in str(found)
    assert any(one.get("e", "").endswith("then 1 end") for one in found)


def test_a_loop_changes_each_element() -> None:
    array = {"split": {"field": "message", "target_field": "parts", "separator": ","}}
    loop = {"foreach": {"field": "parts", "processor": {"gsub": {"field": "_ingest._value", "pattern": "x", "replacement": "y"}}}}

    assert steps(array, loop)[-1]["fields"] == {"parts": "transform(parts, x -> regexp_replace(x, 'x', 'y'))"}


def test_a_list_is_changed_by_element() -> None:
    texts = {"set": {"field": "tags", "value": ["a-b", "c"]}}
    *_, last = steps(texts, {"gsub": {"field": "tags", "pattern": "-", "replacement": "+"}})
    assert last["fields"] == {"tags": "transform(tags, x -> regexp_replace(x, '-', '+'))"}
