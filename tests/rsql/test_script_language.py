"""The language of scripts: what it becomes, and where its mistakes are."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from script_runs import run_script

from etl.rsql.problems import SourceError
from etl.rsql.scripts import condition_of, convert_script


def steps(script: str, **fields: pa.DataType) -> list[dict[str, Any]]:
    return convert_script(script, fields or None)[0]


def error(script: str) -> SourceError:
    with pytest.raises(SourceError) as caught:
        convert_script(script)
    return caught.value


def test_values_that_do_not_depend_on_each_other_are_set_in_one_step() -> None:
    assert steps("a=lower(x);b=upper(x);c=trim(a);") == [
        {"type": "set", "fields": {"a": "rsql_lower(x)", "b": "rsql_upper(x)"}},
        {"type": "set", "fields": {"c": "rsql_trim(a)"}},
    ]


def test_a_value_that_reads_itself_is_set_after_the_one_before() -> None:
    assert run_script("a=concat(a,'1');a=concat(a,'2');", {"a": "x"}) == [{"a": "x12"}]


def test_an_if_with_one_field_is_a_case() -> None:
    [step] = steps("if(a=='x'){r='yes';}elseif(b>3){r='some';}else{r='no';};")

    assert step["fields"] == {"r": "case when rsql_equal(a, 'x') then 'yes' when rsql_great(b, 3) then 'some' else 'no' end"}


@pytest.mark.parametrize(
    ("a", "expected"),
    [("x", {"a": "x1", "b": "then", "c": "in"}), ("y", {"a": "y", "b": "else"}), ("z", {"a": "z", "b": "else"})],
)
def test_branches_run_for_the_condition_before_them(a: str, expected: dict[str, Any]) -> None:
    script = "if(a=='x'){a=concat(a,'1');b='then';if(a=='x1'){c='in';};}else{b='else';};"

    assert run_script(script, {"a": a}) == [expected]


def test_an_if_that_only_breaks_is_a_filter() -> None:
    assert steps("if(a=='x'){break();};") == [{"type": "filter", "where": "not rsql_equal(a, 'x')"}]


@pytest.mark.parametrize(("a", "kept"), [("x", []), ("y", [{"a": "y", "b": 1}])])
def test_break_drops_the_event_in_its_branch(a: str, kept: list[dict[str, Any]]) -> None:
    assert run_script("if(a=='x'){c=1;break();};b=1;", {"a": a}) == kept


def test_what_follows_a_break_is_never_run() -> None:
    assert steps("return();b=1;") == [{"type": "filter", "where": "false"}]


@pytest.mark.parametrize(
    ("condition", "expected"),
    [
        ("(a=='x')&(n>=7)", True),
        ("a=='x'&&n==8", False),
        ("a=='y'|n==7", True),
        ("(a=='y')||(n==8)", False),
        ("!(a=='x')", False),
        ("nosuch!='x'", False),
        ("contains(a,'x')", True),
        ("flag", True),
    ],
)
def test_conditions_are_true_or_false(condition: str, expected: bool) -> None:
    message = {"a": "x", "n": 7, "flag": "true"}

    [row] = run_script(f"if({condition}){{r=1;}}else{{r=0;}};", message)

    assert row["r"] == int(expected)


def test_objects_are_their_members() -> None:
    assert run_script("r=toJson(jo);s=json_value(jo,'m.z');", {"jo": {"k": "v", "m": {"z": 1}}}) == [
        {"jo.k": "v", "jo.m.z": 1, "r": '{"k":"v","m":{"z":1}}', "s": 1}
    ]


def test_a_condition_of_a_rule_is_an_expression_of_a_script() -> None:
    assert condition_of("equals(name,'Alice')", 0) == "rsql_equals(name, 'Alice')"


def test_names_without_fields_are_null_with_a_warning() -> None:
    _, scope = convert_script("r=concat(a,nosuch);setHeader('a','b');", {"a": pa.string()})

    assert list(scope.warnings.items()) == [
        ("there is no field 'nosuch' here: the script takes it for null", 11),
        ("setHeader has no effect: messages have no headers here; the sink's options name fields for properties", 19),
    ]


@pytest.mark.parametrize(
    ("script", "at", "message", "hint"),
    [
        ("r=lower(a)\nq=1;", 11, "';' is expected, not 'q'", "a statement ends with ';'"),
        ("r=lower(a;", 9, "',' or ')' is expected, not ';'", None),
        ("r='a;", 2, "this quote is not closed", None),
        ("r=a#b;", 3, "'#' does not belong here", None),
        ("if(a=='x'){r=1;", 15, "'}' is expected, not the end", None),
        ("if(a=='x') r=1;", 11, "'{' is expected, not 'r'", "the statements of a condition stand in { }"),
        ("=1;", 0, "a statement is expected, not '='", "write field=function(…); or function(…);"),
        ("a;", 0, "this is not a statement", "write field=function(…); or function(…);"),
        ("r=a + b;", 4, "'+' computes nothing in a script", "write addition(a,b), or a step set"),
        ("r=lowr(a);", 2, "there is no function 'lowr'", "did you mean 'lower'?"),
        ("r=lower(a,b);", 2, "lower takes 1 argument, not 2", "its arguments: lower(text)"),
        (
            "groovy('x');",
            0,
            "groovy does not exist here",
            "call a function of a Python file: the step python, or functions of your own",
        ),
        (
            "r=intelligence('a','b','c','d');",
            2,
            "intelligence does not exist here",
            "put a step lookup with the table before the script",
        ),
        ("if(a=='x'){rm(a);};", 11, "rm cannot stand in a branch of if", "use two streams"),
        ("splitArray(a);", 0, "the fields of the event are not known here", "use the step script, or a step unnest"),
        ("rename(a);", 0, "rename takes 2 arguments, not 1", None),
        ("r=" + "lower(" * 200 + "a" + ")" * 200 + ";", 608, "more than 100 calls are inside each other", None),
    ],
)
def test_mistakes_have_places_and_hints(script: str, at: int, message: str, hint: str | None) -> None:
    found = error(script)

    assert (found.at, str(found), found.hint) == (at, message, hint)


def test_all_mistakes_of_a_script_are_found() -> None:
    script = "a=lowr(x);\nb=x#y;\nif(x=='1'){c=nosuch(x);rm(x);}else{d=lower();};\ne=lower(x;\ng=groovy(x);f='open"

    assert [(one.at, str(one)) for one in error(script).all] == [
        (2, "there is no function 'lowr'"),
        (14, "'#' does not belong here"),
        (31, "there is no function 'nosuch'"),
        (41, "rm cannot stand in a branch of if"),
        (55, "lower takes 1 argument, not 0"),
        (75, "',' or ')' is expected, not ';'"),
        (79, "groovy does not exist here"),
        (91, "this quote is not closed"),
    ]


def test_statements_behind_a_syntax_error_are_read() -> None:
    found = error("r=lower(a;q=1 2;if(a=='x'){s=;t=lower();}else u=1;v=upper();").all

    assert [one.at for one in found] == [9, 14, 29, 46, 52]


def test_fields_that_only_the_run_shows_are_declared() -> None:
    declared = {"src": "string", "port": "int"}

    assert run_script("parse_express(log,',');", {"log": "src=a,b,port=80,x=1"}, declared) == [{"src": "a,b", "port": 80}]
    assert run_script("json_expand('js');", {"js": '{"src":"a","port":"x"}'}, declared) == [{"src": "a"}]
    assert str(error("parse_express(log,',');")) == "parse_express gives fields that are not known before the run"


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (
            "json_merge(jo);",
            "json_merge has no effect, as in RocketMQ Streams: the value of jo names no field; write json_merge('jo')",
        ),
        (
            "expandField('jo');",
            "expandField has no effect, as in RocketMQ Streams: 'jo' in quotes is a text; write expandField(jo)",
        ),
        (
            "modifyFormat('d','yyyy');",
            "modifyFormat has no effect, as in RocketMQ Streams: 'd' in quotes is a text; write modifyFormat(d)",
        ),
    ],
)
def test_a_field_that_the_old_engine_does_not_find_is_a_warning(call: str, message: str) -> None:
    steps, scope = convert_script(call, {"jo.k": pa.string(), "d": pa.string()})

    assert (steps, list(scope.warnings)) == ([], [message])


def test_properties_are_set_by_mock() -> None:
    assert steps("mock('a.b','x');r=env('a.b');") == [{"type": "set", "fields": {"r": "'x'"}}]
    assert "mock('name','value')" in (error("r=env('a.b');").hint or "")
