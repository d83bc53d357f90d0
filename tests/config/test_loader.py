"""Whole files: what a valid one becomes, and every problem of a bad one."""

from __future__ import annotations

import pickle
from pathlib import Path

import pytest
from fake_components import CATALOGUE, Lines, Out

from etl.config import ConfigError, Pipeline, load
from etl.config.loader import CheckedPipeline, inspect
from etl.config.stream_schemas import schemas_of, step_schemas

LONG = """\
name: demo
description: For tests.
sources:
  a: {type: lines, path: a.log}
  b: {type: lines, path: b.log, columns: {n: int}}
streams:
  late: {from: early, steps: [{type: pick, where: who}]}
  early:
    from: [a, b]
    steps:
      - {type: match, pattern: '(?P<who>\\w+)'}
sinks:
  all: {from: [early, a], type: out, path: x}
  some: {from: late, type: out, path: y}
dead_letters: {type: out, path: dead}
run: {trigger: 1s, max_batch_bytes: 1MiB, parallelism: 3}
"""
SHORT = """\
source: {type: lines, path: a.log}
steps:
  - {type: match, pattern: '(?P<who>\\w+)'}
sink: {type: out, path: x}
"""


def checked(tmp_path: Path, text: str, env: dict[str, str] | None = None, overrides: tuple[str, ...] = ()) -> CheckedPipeline:
    file = tmp_path / "p.yaml"
    file.write_text(text, encoding="utf-8")
    return inspect(file, env or {}, overrides, CATALOGUE)


def pipeline(tmp_path: Path, text: str, **more: object) -> Pipeline:
    found = checked(tmp_path, text, **more)  # type: ignore[arg-type]
    assert found.pipeline is not None, "\n".join(map(str, found.problems))
    return found.pipeline


def locations_of(found: CheckedPipeline) -> list[tuple[int, int, str]]:
    return [(problem.line, problem.column, problem.code) for problem in found.problems]


def test_long_form(tmp_path: Path) -> None:
    made = pipeline(tmp_path, LONG)

    assert made.name == "demo"
    assert list(made.streams) == ["early", "late"], "each stream stands after its inputs"
    assert made.sources["a"] == Lines(path="a.log")
    assert made.sinks["all"].inputs == ("early", "a")
    assert isinstance(made.dead_letters, Out)
    assert made.run.parallelism == 3
    assert made.run.max_batch_bytes == 2**20


def test_short_form_has_long_paths_and_unique_names(tmp_path: Path) -> None:
    made = pipeline(tmp_path, SHORT)

    assert (list(made.sources), list(made.streams), list(made.sinks)) == (["main"], ["steps"], ["main"])
    assert made.streams["steps"].inputs == ("main",)
    assert made.sinks["main"].inputs == ("steps",)
    assert made.locations["streams", "steps", "steps", 0] == (3, 5)
    assert made.name == "p"


def test_without_steps_the_sink_reads_the_source(tmp_path: Path) -> None:
    made = pipeline(tmp_path, "source: {type: lines, path: a}\nsink: {type: out, path: x}\n")

    assert made.streams == {}
    assert made.sinks["main"].inputs == ("main",)


def test_without_sinks_the_console_shows_what_nobody_reads(tmp_path: Path) -> None:
    text = "sources:\n  a: {type: lines, path: a}\n  b: {type: lines, path: b}\nstreams:\n  c: {from: a}\n"

    found = checked(tmp_path, text)

    assert found.problems == ()
    assert found.pipeline is not None
    assert found.pipeline.sinks["console"].inputs == ("b", "c")


def test_a_stream_reads_the_only_source(tmp_path: Path) -> None:
    text = "sources: {a: {type: lines, path: a}}\nstreams: {c: {steps: []}}\nsinks: {d: {from: c, type: out, path: x}}\n"

    assert pipeline(tmp_path, text).streams["c"].inputs == ("a",)


def test_pipelines_are_picklable(tmp_path: Path) -> None:
    made = pipeline(tmp_path, LONG)

    assert pickle.loads(pickle.dumps(made)) == made


def test_schemas_follow_the_steps(tmp_path: Path) -> None:
    made = pipeline(tmp_path, LONG)

    assert schemas_of(made)["late"].names == ["n", "who"]
    assert [schema.names for schema in step_schemas(made, "early")] == [["message", "n"], ["n", "who"]]


def test_load_raises_all_problems(tmp_path: Path) -> None:
    file = tmp_path / "bad.yaml"
    file.write_text("source: {}\nsteps: 5\nsink: []\n")

    with pytest.raises(ConfigError) as raised:
        load(file)

    assert [problem.code for problem in raised.value.problems] == ["missing-option", "type", "type"]
    assert str(raised.value).startswith(f"{file}:1:9: missing-option: $.source needs 'type'\n  hint: ")
    assert pickle.loads(pickle.dumps(raised.value)).problems == raised.value.problems


def test_environment_is_substituted_and_coerced(tmp_path: Path) -> None:
    text = 'source: {type: lines, path: "${DIR}/x", max_files: "${N}", follow: "${F:-false}", most: "${M}"}\n'

    made = pipeline(tmp_path, text, env={"DIR": "/a: [b", "N": "7", "M": "100"})

    assert made.sources["main"] == Lines(path="/a: [b/x", max_files=7, follow=False, most=100)


def test_environment_values_stay_text_where_text_is_wanted(tmp_path: Path) -> None:
    made = pipeline(tmp_path, "source: {type: lines, path: '${P}'}\n", env={"P": "123"})

    assert made.sources["main"] == Lines(path="123")


def test_overrides(tmp_path: Path) -> None:
    given = ("sources.a.path=/tmp/z", "sources.a.max_files=5", "sinks.all.batch.max_events=9", "streams.early.from=[a]")

    made = pipeline(tmp_path, LONG, overrides=given)

    assert made.sources["a"] == Lines(path="/tmp/z", max_files=5)
    assert made.sinks["all"].sink.batch.max_events == 9
    assert made.streams["early"].inputs == ("a",)


@pytest.mark.parametrize("glued", ["path x.log", "path:x.log", "path :x.log"])
def test_an_option_that_lost_its_colon_gets_a_hint(glued: str, tmp_path: Path) -> None:
    found = checked(tmp_path, f"source: {{type: lines, {glued}}}\n")

    (shown_text,) = (problem for problem in found.problems if problem.code == "unknown-option")
    assert (shown_text.message, shown_text.hint) == (
        f"has no option {glued!r}",
        "path needs a colon and a blank after it: path: …",
    )


def test_a_secret_that_lost_its_colon_is_not_shown(tmp_path: Path) -> None:
    found = checked(tmp_path, "source: {type: lines, path: x}\nsink: {type: out, path: y, token:hunter2-token}\n")

    assert [problem.message for problem in found.problems] == ["has no option 'token'"]
    assert "hunter2" not in repr(found.problems)


def test_bad_overrides_are_problems(tmp_path: Path) -> None:
    given = ("nonsense", "source.a.path=1", "sources.a.max_files=0", "streams.early.steps[4].where=x", "sources.a.path=\udcff")

    found = checked(tmp_path, LONG, overrides=given)

    assert {(p.code, p.hint) for p in found.problems} == {
        ("bad-override", "did you mean 'sources'?"),
        ("bad-override", "such as sources.auth.path=/tmp/x.log"),
        ("bad-override", "here are: 0 to 0"),
        ("bad-override", "give UTF-8 text"),
        ("minimum", "the value was given by --set"),
    }


def test_an_override_sets_options_that_the_file_leaves_out(tmp_path: Path) -> None:
    text = "source: {type: lines, path: x}\nsink: {type: out, path: y}\n"

    found = checked(tmp_path, text, overrides=["run.max_batch_bytes=3MiB", "sink.batch.max_events=7"])

    assert not found.problems
    assert found.pipeline is not None
    assert found.pipeline.run.max_batch_bytes == 3 << 20
    assert found.pipeline.sinks["main"].sink.batch.max_events == 7


def test_yaml_1_1_truths_get_a_hint(tmp_path: Path) -> None:
    found = checked(tmp_path, "source: {type: lines, path: x, follow: no}\n")

    assert [(p.column, p.message, p.hint) for p in found.problems] == [
        (40, "'no' is not true or false", "write false: YAML 1.2 reads 'no' as text")
    ]


def test_secrets_and_environment_values_are_not_shown(tmp_path: Path) -> None:
    text = (
        "source: {type: lines, path: x, max_files: '${SECRET}'}\n"
        "sink: {type: out, path: y, format: 'hunter2-token', token: hunter2-token, login: {user: u, password: short12}}\n"
    )

    found = checked(tmp_path, text, env={"SECRET": "open-sesame"})

    shown = "\n".join(str(problem) for problem in found.problems)
    assert [p.code for p in found.problems if p.severity == "error"] == ["type", "enum", "max-length", "min-length"]
    assert "hunter2" not in shown
    assert "open-sesame" not in shown
    assert "short12" not in shown
    assert "'${SECRET}' is not a whole number" in shown


def test_a_secret_in_the_file_is_a_warning(tmp_path: Path) -> None:
    text = "source: {type: lines, path: x}\nsink: {type: out, path: y, token: '%s', login: {user: u, password: '%s'}}\n"

    inside = checked(tmp_path, text % ("hunter2", "sesame-open"))
    outside = checked(tmp_path, text % ("${TOKEN}", "${PASSWORD}"), env={"TOKEN": "hunter2", "PASSWORD": "sesame-open"})
    given = checked(
        tmp_path, text % ("${TOKEN:-}", "${P:-}"), overrides=("sink.token=hunter2", "sink.login.password=sesame-open")
    )

    warned = [(p.line, p.column, p.code, p.severity) for p in inside.problems]
    assert warned == [(2, 35, "secret-in-file", "warning"), (2, 73, "secret-in-file", "warning")]
    assert not outside.problems
    assert not given.problems


def test_consequences_are_not_reported(tmp_path: Path) -> None:
    text = (
        "source: {type: lines, path: x}\n"
        "steps:\n"
        "  - {type: match, patern: '(?P<who>.)'}\n"
        "  - {type: pick, where: who}\n"
        "  - {type: match, pattern: '(', field: message}\n"
    )

    assert locations_of(checked(tmp_path, text)) == [(3, 19, "unknown-option"), (5, 29, "bad-pattern"), (5, 40, "unknown-field")]


def test_a_check_that_breaks_is_a_problem(tmp_path: Path) -> None:
    found = checked(tmp_path, "source: {type: lines, path: x}\nsink: {type: out, path: boom}\n")

    assert [(p.line, p.column, p.code) for p in found.problems] == [(2, 7, "check-failed")]


def test_a_method_that_a_component_lacks_is_named(tmp_path: Path) -> None:
    (problem,) = checked(tmp_path, "source: {type: lines, path: x}\nsink: {type: out, path: unfinished}\n").problems

    assert problem.message == "the check of this component failed: its class does not define 'check'"


def test_unions_need_types_that_go_together(tmp_path: Path) -> None:
    text = """\
sources:
  a: {type: lines, path: a, columns: {n: int, t: string}}
  b: {type: lines, path: b, columns: {n: bigint, t: double}}
sinks:
  o: {from: [a, b], type: out, path: x}
"""
    found = checked(tmp_path, text)

    assert locations_of(found) == [(5, 13, "union-type-conflict")]
    assert found.problems[0].message == "field 't' is string in 'a' and double in 'b'"


def test_a_field_of_a_union_is_not_a_value_in_one_input_and_a_struct_in_another(tmp_path: Path) -> None:
    text = """\
sources:
  a: {type: lines, path: a, columns: {n: int}}
  b: {type: lines, path: b, columns: {n.t: string}}
sinks:
  o: {from: [a, b], type: out, path: x}
"""
    found = checked(tmp_path, text)

    assert locations_of(found) == [(5, 13, "field-conflict")]


def test_a_field_is_not_a_value_and_a_struct(tmp_path: Path) -> None:
    text = "source: {type: lines, path: a, columns: {host: string}}\nsteps: [{type: pick, where: host, give: host.ip}]\n"

    assert locations_of(checked(tmp_path, text)) == [(2, 9, "field-conflict")]


def test_warnings_do_not_stop_a_pipeline(tmp_path: Path) -> None:
    found = checked(tmp_path, "source: {type: lines, path: a}\nsteps: [{type: pick, where: message}]\n")

    assert found.pipeline is not None
    assert [(p.severity, p.code) for p in found.problems] == [("warning", "slow-pattern")]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", [(1, 1, "not-a-pipeline")]),
        ("# only a comment\n", [(1, 1, "not-a-pipeline")]),
        ("- a\n", [(1, 1, "not-a-pipeline")]),
        ("name: x\n", [(1, 1, "missing-source")]),
        ("source: {type: lines, path: x}\nsinks: {}\n", [(1, 1, "mixed-forms")]),
        ("source:\n", [(1, 1, "type")]),
        ("sources: {}\n", [(1, 10, "min-properties")]),
        ("source: {type: out, path: x}\n", [(1, 16, "unknown-type")]),
        ("source: {type: lines, path: x, every: 5}\n", [(1, 39, "invalid-value")]),
        ("source: {type: lines, path: x, columns: {a: text}}\n", [(1, 45, "invalid-value")]),
        ("source: {type: lines, path: x, columns: {a b: int}}\n", [(1, 42, "property-names")]),
        ("source: {type: lines, path: ''}\n", [(1, 29, "min-length")]),
        ("source: {type: lines, path: x}\nsink: {type: out, path: y, from: main}\n", [(2, 28, "unknown-option")]),
        ("source: {type: lines, path: x}\nrun: {paralelism: 2}\n", [(2, 7, "unknown-option")]),
    ],
)
def test_one_problem(tmp_path: Path, text: str, expected: list[tuple[int, int, str]]) -> None:
    assert locations_of(checked(tmp_path, text)) == expected


def test_unreadable_files_are_problems(tmp_path: Path) -> None:
    assert [p.code for p in inspect(tmp_path / "none.yaml", {}, (), CATALOGUE).problems] == ["unreadable-file"]
    assert [p.code for p in inspect(tmp_path, {}, (), CATALOGUE).problems] == ["unreadable-file"]
