"""``etl list functions`` and ``etl describe FUNCTION``."""

from __future__ import annotations

from click.testing import CliRunner

from etl.cli.main import cli


def _run(*arguments: str) -> str:
    return CliRunner().invoke(cli, arguments).output


def test_functions_are_listed_by_what_they_do() -> None:
    lines = _run("list", "functions", "Shannon").splitlines()

    assert [line.split("(")[0] for line in lines] == ["entropy"]


def test_a_function_is_described() -> None:
    text = _run("describe", "ip_in")

    assert text.startswith("ip_in(address, network, more …) (function, own)\n")
    assert "Example   ip_in('10.1.2.3', '10.0.0.0/8', '192.168.0.0/16') → true" in text


def test_a_function_of_spark_says_where_it_runs() -> None:
    assert "runs on Arrow" in _run("describe", "upper")
    assert "computed by Spark" in _run("describe", "soundex")


def test_an_unknown_function_has_a_hint() -> None:
    assert "did you mean 'entropy'?" in _run("describe", "entropi")
    assert "did you mean 'json_value'?" in _run("describe", "json_valu")


def test_a_function_of_scripts_has_its_name_there() -> None:
    assert "In SQL scripts it is JSON_VALUE." in _run("describe", "json_value")
    assert "In SQL scripts" not in "".join(_run("describe", name) for name in ("flink_json_value", "flink_json_valu", "ip_in"))


def test_a_function_is_described_once() -> None:
    text = _run("describe", "flink_date_format")

    assert text.count("(function, flink)") == 1
