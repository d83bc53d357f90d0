"""Texts of an attacker's making through every parser: nothing raises, no row is lost, what comes out is sound Arrow."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pyarrow as pa
import pytest

from etl.api import Parser
from etl.catalogue import installed

LONG = 200_000
DEEP = 20_000

OPTIONS: Mapping[str, Mapping[str, Any]] = {
    "csv": {"names": ["a", "b", "c"]},
    "decode": {"encoding": "percent"},
    "dissect": {"pattern": "%{a} %{b} [%{c}]"},
    "grok": {"patterns": ["%{SYSLOGBASE} %{GREEDYDATA:text}", "^%{COMBINEDAPACHELOG}$"]},
    "json": {"fields": {"a": "string", "b.c": "int", "d": "array<string>"}, "rest": "rest", "more": "more"},
    "regex": {"patterns": ["^(?<a>[^ ]*) (?<b>.*)$"]},
    "timestamp": {"field": "message", "target": "t", "formats": ["iso8601", "syslog", "yyyy-MM-dd HH:mm:ss z"]},
    "url": {"field": "message", "decode": True},
    "user_agent": {"field": "message"},
    "xml": {"fields": {"a": "string"}},
}
"""What the parsers need that do nothing without."""

PARSERS = ["cef", "key_value", "leef", "syslog", "w3c", "weblog", *OPTIONS]

TEXTS = {
    "empty": "",
    "NUL": "\0",
    "NUL inside": 'a\0b="c\0" {"a\0":"\0"}',
    "new lines inside": 'k="v\n" <34>1 - - - - - [a b="\n"] x\ny CEF:0|a\n|b,c\n"d\n',
    "long word": "x" * LONG,
    "only quotes": '"' * LONG,
    "only backslashes": "\\" * LONG,
    "only blanks": " " * LONG,
    "only signs": "=|,;:" * (LONG // 5),
    "long string": '{"a":"' + "é" * LONG + '"}',
    "open forever": '{"a":' * DEEP,
    "deep objects": '{"a":' * DEEP + "1" + "}" * DEEP,
    "deep arrays": '{"a":' + "[" * DEEP + "]" * DEEP + "}",
    "deep elements": "<a>" * DEEP + "</a>" * DEEP,
    "entities": "<!DOCTYPE a [<!ENTITY b 'c'><!ENTITY d '&b;&b;&b;'>]><a>&d;</a>",
    "wrong escapes": '{"a":"\\u12","b":{"c":99999999999999999999},"d":["\\ud800"]}',
    "many pairs": "k=v " * (LONG // 4),
    "many cells": "a," * (LONG // 2),
    "many extensions": "CEF:0|a|b|c|d|e|f|" + "k=v " * (LONG // 4),
    "many attributes": "LEEF:2.0|a|b|c|d|^|" + "k=v^" * (LONG // 4),
    "many elements": "<34>1 2003-10-11T22:14:15.003Z h a p m " + '[a b="c"]' * DEEP,
    "many parameters": "<34>1 2003-10-11T22:14:15.003Z h a p m [a" + ' b="c"' * DEEP + "]",
    "many labels": "http://" + "a." * (LONG // 2) + "/?" + "a=%ff&" * DEEP,
    "half percent": "%" * LONG,
    "long zone": "2024-07-01 12:00:00 " + "a/b" * DEEP,
    "digits": "9" * LONG,
}


@pytest.mark.slow
@pytest.mark.parametrize("type_", [pa.string(), pa.string_view()], ids=str)
@pytest.mark.parametrize("name", PARSERS)
def test_hostile_texts_are_events_or_failures(name: str, type_: pa.DataType) -> None:
    component = installed().families["step"][name]
    assert issubclass(component, Parser)
    parse = component.model_validate({"type": name, **OPTIONS.get(name, {})}).compile()
    column = pa.array([None, *TEXTS.values(), "plain text"]).cast(type_)
    if type_ == pa.string_view() and not component.takes_views:
        column = column.cast(pa.string())

    parsed = parse(column)

    for values in parsed.columns.values():
        values.validate(full=True)
        assert len(values) == len(column)
    assert parsed.failed is None or (len(parsed.failed) == len(column) and parsed.failed.null_count == 0)


def test_every_parser_is_tried() -> None:
    parsers = {name for name, step in installed().families["step"].items() if issubclass(step, Parser)}

    untried = parsers - {"geoip", *PARSERS}
    assert not untried, f"add to OPTIONS above, with options, or to PARSERS if it needs none: {', '.join(untried)}"
    assert parsers >= set(PARSERS)
