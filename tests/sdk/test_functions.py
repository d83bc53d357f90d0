"""Functions of the user, declared by the builder: this file has them, and workers load it."""

from __future__ import annotations

import runpy
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
import yaml

from etl.sdk import EtlError, Pipeline, col, fn, function, pipeline, read, when


@function
def domain(address: pa.StringArray) -> pa.StringArray:
    """The part of a mail address after the @."""
    return pc.replace_substring_regex(address, "^.*@", "")


@function(name="size_of", timeout="5s")
def length(text: str) -> int:
    return len(text)


def shout(text: str) -> str:
    return text.upper()


HERE = Path(__file__)


def mails() -> Pipeline:
    sender = domain(col("message"))
    steps = (
        read.file("mails.log")
        .set({"domain": sender, "kind": when(length(sender) > 5, "long").otherwise("short")})
        .filter(~fn.startswith(col("domain"), "x"))
        .set({"loud": "shout(domain)"})
    )
    return pipeline("mails", steps.to_discard(), functions=[shout])


def test_functions_come_with_the_expressions_that_call_them() -> None:
    result = mails().test(["ann@example.org", "bob@x.org", "eve@a.b"])

    assert [(row["domain"], row["kind"], row["loud"]) for row in result.events] == [
        ("example.org", "long", "EXAMPLE.ORG"),
        ("a.b", "short", "A.B"),
    ]


def test_a_pipeline_declares_their_file_and_name(tmp_path: Path) -> None:
    written = yaml.safe_load(mails().to_yaml())
    mails().to_yaml(tmp_path / "mails.yaml")

    assert written["functions"] == {
        "shout": HERE.name,
        "domain": HERE.name,
        "size_of": {"file": HERE.name, "function": "length", "timeout": "5s"},
    }
    moved = yaml.safe_load((tmp_path / "mails.yaml").read_text())["functions"]
    assert moved["domain"] == str(HERE)
    assert moved["size_of"]["file"] == str(HERE)
    assert Pipeline.from_yaml(tmp_path / "mails.yaml").lint() == ()


def test_functions_of_a_file_are_found_from_another_folder(tmp_path: Path) -> None:
    (tmp_path / "more").mkdir()
    (tmp_path / "own.py").write_text("def twice(text: str) -> str:\n    return text * 2\n")
    (tmp_path / "a.yaml").write_text(
        "functions: {twice: own.py}\nsource: {type: file, path: a}\nsteps: [{type: set, fields: {m: twice(message)}}]\n"
    )

    Pipeline.from_yaml(tmp_path / "a.yaml").to_yaml(tmp_path / "more" / "b.yaml")

    assert Pipeline.from_yaml(tmp_path / "more" / "b.yaml").test(["ab"]).events == [{"message": "ab", "m": "abab"}]


def first_word(event: dict[str, Any]) -> dict[str, Any]:
    return {"first": event["message"].split()[0]}


def test_a_function_of_whole_events_is_given_to_the_step_python() -> None:
    firsts = read.file("a").python(first_word, fields={"first": pa.string()})

    assert firsts.test(["to be"]).events == [{"message": "to be", "first": "to"}]
    assert yaml.safe_load(pipeline("p", firsts.to_discard()).to_yaml())["functions"] == {"first_word": HERE.name}


def test_a_function_is_still_one_of_python() -> None:
    assert length("abc") == 3
    assert domain(pa.array(["a@b"])).to_pylist() == ["b"]
    assert str(domain(col("a")) == "b") == "domain(a) = 'b'"
    assert domain.__doc__ == "The part of a mail address after the @."


def test_a_wrong_call_is_found_by_lint_at_its_line() -> None:
    problems = read.file("a").filter(length(col("message"), 2) > 1).lint()

    assert [problem.file for problem in problems] == [__file__]
    assert "size_of" in problems[0].message


def test_what_workers_could_not_load_is_refused() -> None:
    def inner(text: str) -> str:
        return text

    with pytest.raises(TypeError, match="top level"):
        function(inner)
    with pytest.raises(TypeError, match="lambda"):
        function(lambda text: text)
    with pytest.raises(TypeError, match="not in a file"):
        function(len)(col("a"))
    with pytest.raises(TypeError, match="arguments by name"):
        length(col("a"), text="b")
    with pytest.raises(TypeError, match="call it with expressions"):
        read.file("a").filter(shout)  # type: ignore[arg-type]


def test_two_functions_of_one_name_are_refused() -> None:
    other = function(shout, name="domain")

    with pytest.raises(ValueError, match="two functions are named 'domain'"):
        read.file("a").set({"a": domain(col("message")), "b": other(col("message"))}).lint()


def test_a_file_that_tries_its_pipeline_while_it_is_loaded_says_what_to_do(tmp_path: Path) -> None:
    lines = ["from etl.sdk import col, function, read", "@function", "def f(text: str) -> str:", "    return text"]
    text = "\n".join([*lines, "read.file('a').set({'b': f(col('message'))}).test(['x'])"])
    (tmp_path / "own.py").write_text(text)

    with pytest.raises(EtlError, match="put them under if __name__ == '__main__':"):
        runpy.run_path(str(tmp_path / "own.py"))
