"""`functions` of a pipeline file: lint finds mistakes in both files, runs call them, the code travels to the workers."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pytest
from running import Engine

from etl.config.loader import inspect

CODE = """\
import pyarrow as pa
import pyarrow.compute as pc


def shout(text: pa.StringArray) -> pa.StringArray:
    return pc.utf8_upper(text)


def port_of(text: str) -> int:
    return int(text.rpartition(":")[2])
"""

PIPELINE = """\
functions:
  shout: functions.py
  port: functions.py:port_of
source: {{type: file, path: {folder}/in.log}}
steps:
  - type: set
    fields: {{loud: shout(message), port: port(message)}}
  - {{type: filter, where: shout(message) <> 'NO:1'}}
sink: {{type: file, path: {folder}/out.json, format: json}}
dead_letters: {{type: file, path: {folder}/dead.json, format: json}}
"""


def _write(folder: Path, pipeline: str = PIPELINE, code: str = CODE) -> Path:
    (folder / "functions.py").write_text(code)
    (folder / "pipeline.yaml").write_text(pipeline.format(folder=folder))
    return folder / "pipeline.yaml"


@pytest.mark.spark
@pytest.mark.slow
def test_a_run_calls_functions_in_its_workers(engine: Engine) -> None:
    folder = engine.etl.folder
    path = _write(folder)
    (folder / "in.log").write_text("a:1\nnone\nb:22\nno:1\n")
    run = engine.service(path, once=True)
    (folder / "functions.py").unlink()  # the text of the code travels with the plan

    run.finished()

    out = [json.loads(line) for line in (folder / "out.json").read_text().splitlines()]
    assert [(event["loud"], event["port"]) for event in out] == [("A:1", 1), ("B:22", 22)]
    [letter] = [json.loads(line) for line in (folder / "dead.json").read_text().splitlines()]
    assert (letter["code"], letter["at"]) == ("expression-failed", "steps[0] set")
    assert letter["reason"] == ("port() failed: ValueError: invalid literal for int() with base 10: 'none' (functions.py:10)")


def _problems(folder: Path, functions: str, expression: str = "message", code: str = CODE) -> list[str]:
    pipeline = (
        f"functions:\n  {functions}\nsource: {{{{type: file, path: in.log}}}}\n"
        f"steps:\n  - type: set\n    fields: {{{{x: {json.dumps(expression)}}}}}\n"
    )
    found = inspect(_write(folder, pipeline, code)).problems
    return [
        f"{Path(one.file).name}:{one.line}:{one.column}: {one.severity} {one.code}: {one.message} | {one.hint}" for one in found
    ]


@pytest.mark.parametrize(
    ("functions", "expression", "problem"),
    [
        ("f: none.py", "f(message)", "pipeline.yaml:2:6: error bad-function: the file 'none.py' cannot be read: No such file"),
        ("f: no.module:f", "f(message)", "pipeline.yaml:2:6: error bad-function: there is no module 'no.module' beside"),
        ("f: functions.py:shou", "f(message)", "pipeline.yaml:2:6: error bad-function: function 'f': there is no function"),
        ("shout: functions", "shout(1)", "pipeline.yaml:6:18: error wrong-type: shout() takes a text as its first argument"),
        ("shout: functions.py", "shoud(message)", "pipeline.yaml:6:18: error unknown-function: there is no function 'shoud'"),
        ("upper: functions.py:shout", "upper(message)", "pipeline.yaml:2:3: warning hides-function: 'upper' is a built-in"),
        ("case: functions.py:shout", "message", "pipeline.yaml:2:3: error bad-name: 'case' is a word of the language"),
        ("f: {{file: functions.py, module: x}}", "message", "pipeline.yaml:2:6: error missing-option: needs 'file', 'module'"),
        ("f: {{file: functions.py, timeout: soon}}", "message", "pipeline.yaml:2:36: error pattern"),
        ("f: {{fil: functions.py, file: functions.py, function: shout}}", "message", "pipeline.yaml:2:7: error unknown-option"),
        ("f: 5", "f(message)", "pipeline.yaml:2:6: error type: 5 is not text or a mapping"),
    ],
)  # fmt: skip
def test_mistakes(tmp_path: Path, functions: str, expression: str, problem: str) -> None:
    [found] = _problems(tmp_path, functions, expression)

    assert found.startswith(problem)


def test_spark_sql_knows_no_function_of_the_file(tmp_path: Path) -> None:
    pipeline = (
        "functions: {{shout: functions.py}}\nsource: {{type: file, path: in.log}}\n"
        "steps:\n  - {{type: sql, query: SELECT shout(message) AS x FROM events}}\n"
    )

    [found] = inspect(_write(tmp_path, pipeline)).problems

    assert (found.code, found.line) == ("unknown-function", 4)
    assert found.hint == "functions of your own run on Arrow: compute shout() in a `set` step before"


def test_a_rule_knows_no_function_of_the_file(tmp_path: Path) -> None:
    pipeline = (
        "functions: {{shout: functions.py}}\nsource: {{type: file, path: in.log}}\n"
        "steps:\n  - {{type: rules, rules: [{{name: loud, where: shout(message) = 'A'}}]}}\n"
    )

    [found] = inspect(_write(tmp_path, pipeline)).problems

    assert (found.code, found.line, found.column) == ("unknown-function", 4, 47)
    assert found.hint == "compute shout() in a `set` step before"


def test_describe_shows_a_function_of_a_pipeline(tmp_path: Path) -> None:
    from click.testing import CliRunner

    from etl.cli.main import cli

    code = CODE.replace("StringArray:\n", 'StringArray:\n    """Louder."""\n', 1)
    path = _write(tmp_path, code=code)

    shown = CliRunner().invoke(cli, ["describe", "shout", "--pipeline", str(path)])

    assert shown.output == (
        "shout(text: string) → string, functions.py:5\n\nLouder.\n\n"
        "  expressions call it once for each batch, with Arrow arrays; a call takes at most 30s\n"
    )


def test_lint_runs_no_code(tmp_path: Path) -> None:
    assert _problems(tmp_path, "shout: functions.py", "shout(message)", f"raise SystemExit(1)\n{CODE}") == []


def test_what_only_spark_computes_cannot_be_an_argument(tmp_path: Path) -> None:
    [found] = _problems(tmp_path, "shout: functions.py", "shout(soundex(message))")

    assert "error arrow-only" in found


def test_the_code_in_a_condition_of_a_stateful_step_is_part_of_its_fingerprint(tmp_path: Path) -> None:
    from etl.plan.planner import plan
    from etl.spark.state.fingerprint import fingerprint

    pipeline = """\
functions: {{port: functions.py:port_of, shout: functions.py}}
source: {{type: file, path: in.log}}
steps:
  - {{type: json, fields: {{at: timestamp, k: string}}}}
  - {{type: set, fields: {{k: shout(k)}}}}
  - {{type: sequence, keys: [k], time: at, within: 1m, events: {{one: port(k) = 1, two: port(k) = 2}}, pattern: one then two}}
"""

    def stages(code: str) -> list[dict[str, str]]:
        checked = inspect(_write(tmp_path, pipeline, code))
        assert checked.pipeline is not None, checked.problems
        [query] = plan(checked.pipeline, checked.pipeline.sinks["console"].sink, pa.schema([])).queries
        return list(fingerprint(query)["stages"])

    [before], [after] = stages(CODE), stages(CODE.replace("[2]", "[0]"))

    assert before["code"].startswith("port ")
    assert before["code"] != after["code"]
