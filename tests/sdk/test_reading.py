"""Pipeline files and scripts → the builder → pipeline files."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from etl.catalogue import installed
from etl.config.document.parser import parse
from etl.config.document.sql_script import read_script
from etl.config.document.yaml_text import yaml_text
from etl.config.loader import inspect
from etl.resources import recipes
from etl.sdk import ConfigError, Pipeline

RECIPES = sorted(recipes().items())
LONG = """
name: p
sources: {a: {type: file, path: "${WHERE:-a.log}"}}
streams:
  late: {from: parsed, steps: [{type: filter, where: "n > 1"}]}
  parsed: {description: numbers, steps: [{type: regex, patterns: "(?P<n>[0-9]+)"}]}
sinks: {out: {from: [late, parsed], type: discard}}
"""


@pytest.mark.slow
@pytest.mark.parametrize(("name", "path"), RECIPES, ids=[name for name, _ in RECIPES])
def test_every_recipe_stays_the_same(name: str, path: Path) -> None:
    written = Pipeline.from_yaml(path).to_yaml()

    assert normal(parse(written).value) == normal(parse(path.read_text("utf-8")).value)


def normal(root: dict[str, Any]) -> dict[str, Any]:
    """A file with ``from`` where it may be left out, and without keys that say nothing."""
    streams = {name: {"from": next(iter(root["sources"])), **one} for name, one in root.get("streams", {}).items()}
    return {key: value for key, value in (root | {"streams": streams}).items() if value not in ({}, [])}


def test_a_file_that_is_written_back_is_the_same_pipeline(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text(LONG)
    Pipeline.from_yaml(tmp_path / "a.yaml").to_yaml(tmp_path / "b.yaml")

    first, second = inspect(tmp_path / "a.yaml", {}).pipeline, inspect(tmp_path / "b.yaml", {}).pipeline

    assert first is not None
    assert second is not None
    assert replace(first, file="") == replace(second, file="")
    assert "${WHERE:-a.log}" in (tmp_path / "b.yaml").read_text()


def test_a_file_that_was_edited_is_replaced_only_when_asked(tmp_path: Path) -> None:
    built = Pipeline.from_yaml(LONG)
    text = built.to_yaml(path := tmp_path / "p.yaml")
    built.to_yaml(path)
    path.write_text(edited := f"# mine\n{text}")

    with pytest.raises(FileExistsError, match=r"exists with other content: .*overwrite=True.*p\.yaml"):
        built.to_yaml(path)

    assert path.read_text() == edited
    built.to_yaml(path, overwrite=True)
    assert path.read_text() == text


def test_the_builder_continues_a_file() -> None:
    read = Pipeline.from_yaml(LONG)

    longer = read.add(read["late"].set({"m": "n + 1"}).to_console().named("more"))

    assert longer.test(["5", "0"], observe=["more"], env={}).events == [{"n": "5", "m": 6}]


def test_problems_of_a_file_have_its_lines(tmp_path: Path) -> None:
    path = tmp_path / "a.yaml"
    path.write_text(LONG.replace('"n > 1"', '"m > 1"'))

    read = Pipeline.from_yaml(path)
    more = read.add(read["parsed"].filter("k > 1").to_discard())

    places = [(problem.file, problem.line) for problem in more.lint(env={})]
    assert (str(path), 5) in places
    assert (__file__, line_of('filter("k > 1")')) in places


def line_of(text: str) -> int:
    lines = Path(__file__).read_text("utf-8").splitlines()
    return next(number for number, line in enumerate(lines, 1) if text in line)


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("source: {type: file\n", "yaml-syntax"),
        ("a: 1\nb: 2\n", "missing-source"),
        ("source: 1\nsteps: 2\n", "type"),
        ("sources: {a: {type: file, path: a}}\nstreams: {x: {from: y}, y: {from: x}}\n", "cycle"),
        ("sources: {a: {type: file, path: a}}\nstreams: {x: {from: z}}\n", "unknown-from"),
        ("source: {path: a}\nsteps: []\n", "missing-option"),
        ("source: {type: file, path: a}\nnome: x\n", "unknown-option"),
        ("\n", "not-a-pipeline"),
    ],
)
def test_what_is_no_pipeline_file_is_refused_with_the_problems_of_lint(text: str, code: str) -> None:
    with pytest.raises(ConfigError) as raised:
        Pipeline.from_yaml(text)

    assert code in [problem.code for problem in raised.value.problems]


def test_a_script_is_read_too() -> None:
    script = """
        CREATE TABLE logs (n INT) WITH ('type' = 'file', 'path' = 'a.jsonl', 'format' = 'json');
        INSERT INTO result SELECT n FROM logs;
    """
    with pytest.raises(ConfigError, match="result"):
        Pipeline.from_sql(script)

    read = Pipeline.from_sql(script.replace("INSERT INTO result", ""))

    assert "type: file" in read.to_yaml()


def test_warnings_of_a_script_do_not_stop_it() -> None:
    options = "'connector' = 'kafka', 'topic' = 'a', 'properties.bootstrap.servers' = 'h:9092', 'format' = 'json'"

    read = Pipeline.from_sql(f"CREATE TABLE k (n INT) WITH ({options}, 'scan.parallelism' = '2'); SELECT n FROM k")

    assert "type: kafka" in read.to_yaml()


@pytest.mark.parametrize("path", sorted((Path(__file__).parents[2] / "pipelines").glob("*.sql")), ids=lambda path: path.stem)
def test_recipes_that_are_scripts_are_read_as_the_pipelines_that_they_are(path: Path) -> None:
    script = read_script(path.read_bytes(), installed(), path.parent)

    written = Pipeline.from_sql(path).to_yaml()

    assert normal(parse(written).value) == normal(script.value)


@settings(max_examples=60, deadline=None)
@given(
    st.recursive(
        st.one_of(st.text(st.characters(exclude_categories=["Cs"])), st.integers(), st.booleans(), st.none()),
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text("abc.é-1", min_size=1), inner, max_size=3),
    )
)
def test_every_value_is_read_back_as_it_was_written(value: Any) -> None:
    document = parse(yaml_text({"value": value}))

    assert document.flaws == []
    assert document.value == {"value": value}


@pytest.mark.parametrize(
    "text", ["1e3", "0o17", "0x1F", "on", "no", "~", "", "1_000", "12:30:00", "2026-11-20", "=", "<<", "null", ".5"]
)
def test_texts_that_look_like_other_values_stay_texts(text: str) -> None:
    assert parse(yaml_text({"value": text})).value == {"value": text}
