"""Pipelines built of calls: what they say as YAML, and where their problems are."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import Literal

import pytest
import yaml
from pydantic import Field

import etl.sdk
from etl.api import ArrowStep
from etl.catalogue import Catalogue, installed
from etl.sdk import ConfigError, EtlError, Stream, col, dead_letters, fn, pipeline, read, table, union
from etl.sdk.pipeline import Pipeline

LINE = "2026-11-20T06:25:03Z gate sshd[12]: Failed password for root from 198.51.100.7 port 34416 ssh2"


def value(built: Pipeline) -> dict[str, object]:
    return dict(yaml.safe_load(built.to_yaml()))


def test_one_chain_is_the_short_form_of_a_file() -> None:
    logins = (
        read.file(path=Path("auth.log"))
        .filter(col("message").like("%Failed%"))
        .grok("%{IP:source.ip}", timeout=timedelta(seconds=1))
    )

    built = pipeline(
        "logins", logins.to_file("out.jsonl", batch={"max_events": 10}), run={"trigger": "200ms"}, description="failed"
    )

    assert value(built) == {
        "name": "logins",
        "description": "failed",
        "source": {"type": "file", "path": "auth.log"},
        "steps": [
            {"type": "filter", "where": "message LIKE '%Failed%'"},
            {"type": "grok", "patterns": "%{IP:source.ip}", "timeout": "1s"},
        ],
        "sink": {"type": "file", "path": "out.jsonl", "batch": {"max_events": 10}},
        "run": {"trigger": "200ms"},
    }


def test_a_stream_used_twice_is_one_stream_with_a_name() -> None:
    parsed = read.file("a.log").named("auth").grok("%{IP:ip}").named("parsed", "with addresses")
    local = parsed.filter("ip like '10.%'")

    built = pipeline("both", parsed.to_file("all.jsonl").named("archive"), local.to_console())

    assert value(built) == {
        "name": "both",
        "sources": {"auth": {"type": "file", "path": "a.log"}},
        "streams": {
            "parsed": {"description": "with addresses", "from": "auth", "steps": [{"type": "grok", "patterns": "%{IP:ip}"}]},
            "filter": {"from": "parsed", "steps": [{"type": "filter", "where": "ip like '10.%'"}]},
        },
        "sinks": {
            "archive": {"from": "parsed", "type": "file", "path": "all.jsonl"},
            "console": {"from": "filter", "type": "console"},
        },
    }


def test_unions_joins_tables_and_dead_letters() -> None:
    first, second = read.file("a").named("a"), read.file("b").named("b")
    people = table.inline(key="ip", rows=[{"ip": "10.0.0.1", "owner": "eve"}])
    owned = union(first, second).regex("(?P<ip>[0-9.]+)").lookup(people, on="ip", add={"owner": "owner"})
    other = read.file("c").named("c").regex("(?P<ip>[0-9.]+)").named("other")

    built = pipeline("p", owned.join(other, on="ip", within="1m").to_discard(), dead_letters.to_file("dead/"))

    made = value(built)
    assert made["tables"] == {"inline": {"type": "inline", "key": "ip", "rows": [{"ip": "10.0.0.1", "owner": "eve"}]}}
    assert made["dead_letters"] == {"type": "file", "path": "dead/"}
    assert made["streams"] == {
        "lookup": {
            "from": ["a", "b"],
            "steps": [
                {"type": "regex", "patterns": "(?P<ip>[0-9.]+)"},
                {"type": "lookup", "table": "inline", "on": "ip", "add": {"owner": "owner"}},
            ],
        },
        "other": {"from": "c", "steps": [{"type": "regex", "patterns": "(?P<ip>[0-9.]+)"}]},
        "join": {"from": ["lookup", "other"], "steps": [{"type": "join", "on": "ip", "within": "1m"}]},
    }
    assert built.lint() == ()


def test_a_stream_joined_with_itself_names_it_as_its_right_side() -> None:
    minutes = read.generate(count=1).regex("(?P<ip>[0-9.]+)")

    made = value(pipeline("p", minutes.join(minutes, on="ip", within="1m").to_discard()))

    assert made["streams"]["join"] == {  # type: ignore[index]
        "from": "regex",
        "steps": [{"type": "join", "on": "ip", "within": "1m", "right": "regex"}],
    }


def test_a_union_goes_to_a_sink_without_a_stream_of_its_own() -> None:
    made = value(pipeline("p", union(read.file("a").named("a"), read.file("b").named("b")).to_discard()))

    assert made["sinks"] == {"main": {"from": ["a", "b"], "type": "discard"}}
    assert "streams" not in made


def test_problems_are_at_the_arguments_of_the_calls() -> None:
    broken = (
        read.file("a.log")
        .filter(where="mesage = 'a'")
        .grok(
            ["%{IP:ip}", "%{IPP:x}"],
            timeout="soon",
        )
    )

    problems = pipeline("p", broken.to_file("x", on_failure="wait")).lint()  # type: ignore[arg-type]

    source = Path(__file__).read_text("utf-8").splitlines()
    found = {(problem.code, source[problem.line - 1][problem.column - 1 :]) for problem in problems}
    assert {problem.file for problem in problems} == {__file__}
    assert ("unknown-field", "\"mesage = 'a'\")") in found
    assert ("unknown-pattern", '"%{IPP:x}"],') in found
    assert ("invalid-value", '"soon",') in found
    assert ("enum", '"wait")).lint()  # type: ignore[arg-type]') in found


def test_a_pipeline_with_errors_is_not_run_but_raises_all_of_them() -> None:
    with pytest.raises(ConfigError) as raised:
        pipeline("p", read.file("a").filter("x > 1").filter("y > 1").to_discard()).run()

    assert [problem.code for problem in raised.value.problems] == ["unknown-field", "unknown-field"]
    assert f"{__file__}:" in str(raised.value)


def test_two_parts_of_one_name_are_a_problem() -> None:
    twice = pipeline("p", union(read.file("a").named("x"), read.file("b").named("x")).to_discard())

    assert [problem.code for problem in twice.lint()] == ["duplicate-name"]
    with pytest.raises(ConfigError, match="two parts are named 'x'"):
        twice.to_yaml()


def test_names_of_parts_do_not_depend_on_each_other() -> None:
    logs = read.file("a")

    made = value(pipeline("p", logs.to_discard(), logs.to_discard(), logs.to_console().named("discard_2")))

    assert list(made["sinks"]) == ["discard", "discard_3", "discard_2"]  # type: ignore[call-overload]


def test_components_are_reached_by_their_type_too() -> None:
    made = value(pipeline("p", read.source("file", path="a").step("filter", where="true").to("discard")))

    assert made == value(pipeline("p", read.file("a").filter("true").to_discard()))


def test_a_name_that_no_component_has_is_refused_with_the_nearest() -> None:
    with pytest.raises(AttributeError, match="did you mean 'filter'"):
        read.file("a").fliter("true")  # type: ignore[attr-defined]
    with pytest.raises(AttributeError, match="did you mean 'to_kafka'"):
        read.file("a").to_kafak()  # type: ignore[attr-defined]
    with pytest.raises(AttributeError, match=r"has no 'filter': call it on the stream, before its to_discard"):
        read.file("a").to_discard().filter("true")  # type: ignore[attr-defined]


def test_an_option_that_a_component_does_not_have_is_refused_with_the_nearest() -> None:
    with pytest.raises(TypeError, match=r"filter\(\) has no option 'wher'; did you mean 'where'\?"):
        read.file("a").filter(wher="true")  # type: ignore[call-arg]
    with pytest.raises(TypeError, match=r"rename\(\) has no option 'colour'; it has fields"):
        read.file("a").rename(colour={})  # type: ignore[call-arg]
    with pytest.raises(TypeError, match=r"pipeline\(\) has no option 'rnu'; did you mean 'run'\?"):
        pipeline("p", read.file("a"), rnu={})  # type: ignore[call-arg]


def test_a_sample_of_a_file_that_is_missing_names_it(tmp_path: Path) -> None:
    with pytest.raises(EtlError, match=r"source 'main': there is no file '.*nothere.log'"):
        read.file(tmp_path / "nothere.log").show()


def test_what_is_no_value_of_an_option_is_refused_at_the_call() -> None:
    with pytest.raises(TypeError, match="where: the function '<lambda>' is not a value"):
        read.file("a").filter(lambda event: event)  # type: ignore[arg-type, misc]
    deep: list[object] = []
    deep.append(deep)
    with pytest.raises(TypeError, match="nested deeper"):
        read.file("a").step("keep", fields=deep)


def test_no_component_has_the_name_of_a_method() -> None:
    own = {name for name in vars(Stream) if not name.startswith("_")} | {"test", "show", "sample", "lint", "explain", "model"}

    assert own & {*installed().families["step"], *(f"to_{name}" for name in installed().families["sink"])} == set()


def test_a_pipeline_is_tried_without_spark() -> None:
    logins = (
        read.file("none.log").grok("Failed password for %{USERNAME:user} from %{IP:ip}").set({"upper": fn.upper(col("user"))})
    )

    result = logins.test([LINE, "something else"])

    assert result.events == [{"user": "root", "ip": "198.51.100.7", "upper": "ROOT"}]
    assert [letter["code"] for letter in result.dead_letters] == ["grok-failed"]


def test_a_sample_is_the_first_events_of_the_sources(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "a.log").write_text("".join(f"{number}\n" for number in range(100)))
    numbers = read.file(tmp_path / "a.log").regex("(?P<n>[0-9]+)").filter("cast(n as int) % 2 = 0")

    assert [row["n"] for row in numbers.sample(read=5).events] == ["0", "2", "4"]
    numbers.show(2)

    assert capsys.readouterr().out.splitlines() == ["n", "─", "0", "2", "… 48 more"]
    with pytest.raises(TypeError, match=r"show\(\) takes a number of events"):
        numbers.show("1")  # type: ignore[arg-type]


class Shout(ArrowStep):
    """Shout."""

    type: Literal["shout"] = "shout"
    as_name: str = Field(alias="as", default="loud")


def test_a_component_of_another_package_is_a_method(monkeypatch: pytest.MonkeyPatch) -> None:
    both = Catalogue((*installed().listed, Shout))
    monkeypatch.setattr("etl.sdk.stream.installed", lambda: both)

    stream = read.file("a").shout(as_="x")  # type: ignore[attr-defined]

    assert value(pipeline("p", stream.to_discard()))["steps"] == [{"type": "shout", "as": "x"}]
    assert "shout" in dir(stream)
    assert stream.shout.__doc__ == "Shout."


def test_the_package_says_that_it_has_types() -> None:
    assert (Path(etl.sdk.__file__).parent.parent / "py.typed").is_file()


def test_a_prompt_shows_what_a_value_is() -> None:
    lines = read.file("a")

    assert repr(lines.regex("(?P<n>[0-9]+)").filter("n > 1")) == "<Stream file → regex → filter>"
    assert repr(union(lines, read.stdin()).filter("true").to_kafka("a:9092", topic="t")) == "<Output union of 2 → filter → kafka>"
    assert repr(lines.filter("true").named("good").to_discard().named("out")) == "<Output good → out>"
    assert repr(table.file("a.csv", key="a").named("t")) == "<Table t>"


def test_what_is_no_part_of_a_pipeline_is_refused() -> None:
    logs = read.file("a")

    with pytest.raises(TypeError, match="and not of str"):
        pipeline("p", "a.log")  # type: ignore[arg-type]
    with pytest.raises(TypeError, match=r"a pipeline begins with its name, .* and not with <Stream file>"):
        pipeline(logs)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="one sink of dead letters"):
        pipeline("p", logs.to_discard(), dead_letters.to_file("a"), dead_letters.to_file("b"))
    with pytest.raises(TypeError, match="a source has no description"):
        logs.named("a", "logs")
    with pytest.raises(TypeError, match="union\\(\\) takes streams"):
        union(logs, "b")  # type: ignore[arg-type]


def test_lint_uses_the_environment_that_it_is_given() -> None:
    built = pipeline("p", read.file("${LOGS}/a.log").to_discard())

    assert [problem.code for problem in built.lint(env={})] == ["undefined-env"]
    assert built.lint(env={"LOGS": "logs"}) == ()
    assert str(built.lint(env={"LOGS": "logs"})) == "no problems"


def test_explain_shows_the_plan_of_a_stream() -> None:
    shown = read.file("a").regex("(?P<n>[0-9]+)").explain()

    assert "steps[0] regex: Arrow" in shown
    assert repr(shown) == str(shown)
    assert shown._repr_html_().startswith("<pre>")


def test_own_tests_of_a_pipeline_are_run() -> None:
    tests = {
        "passes": {"input": ["1", "x"], "expect": [{"n": "1"}], "dead_letters": 1},
        "fails": {"input": ["2"], "expect": "none"},
    }

    passes, fails = pipeline("p", read.file("a").regex("(?P<n>[0-9]+)").to_discard(), tests=tests).run_tests()

    assert (passes.name, passes.passed, fails.passed) == ("passes", True, False)
    assert next(iter(fails.lines())).startswith(f"{__file__}:")


def test_events_that_a_source_cannot_have_are_refused() -> None:
    numbers = read.file("a").regex("(?P<n>[0-9]+)")

    with pytest.raises(ConfigError, match="there is no stream or sink 'x'"):
        numbers.test(["1"], observe=["x"])
    with pytest.raises(ConfigError, match="there is no source 'b'"):
        numbers.test({"b": ["1"]})
    with pytest.raises(TypeError, match="events are a list, or a mapping of sources"):
        numbers.test(3)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="event 2 is 1: an event is a text, or a mapping"):
        numbers.test(["1", 1])  # type: ignore[list-item]
    with pytest.raises(ConfigError, match="an event is given as the source reads it: the whole line as a text"):
        numbers.test([{"n": "1"}])
    with pytest.raises(EtlError, match="of which a sample is not taken; give events"):
        read.stdin().show()


def test_several_outputs_are_asked_by_name() -> None:
    both = read.file("a").regex("(?P<n>[0-9]+)")

    result = pipeline("p", both.to_discard().named("all"), both.filter("n > 1").to_discard().named("some")).test(["1", "2"])

    assert result["some"] == [{"n": "2"}]
    assert len(result["all"]) == 2
    with pytest.raises(EtlError, match="name one of 'all', 'some'"):
        result.events  # noqa: B018
    with pytest.raises(KeyError, match="no output 'none'; there are: 'all', 'some'"):
        result["none"]
    assert str(result).startswith("all:\nn\n")


def test_a_secret_is_shown_nowhere_but_in_the_file_that_is_written() -> None:
    stored = read.file("a").to_database("mysql://host/db", table="t", user="u", password="hunter22")
    built = pipeline("p", stored)

    problems = built.lint()

    shown = [repr(built), repr(built._definition()), built._repr_html_(), str(problems), built.explain()]
    assert [text for text in shown if "hunter22" in text] == []
    assert [problem.code for problem in problems] == ["secret-in-file"]
    assert "password: hunter22" in built.to_yaml()
