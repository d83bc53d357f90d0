"""A parser that a process has opened once: opening it again, as every micro-batch does, builds nothing anew."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from etl.api import OFFSET, Parser
from etl.scanner import scanner
from etl.scanner.tree import Node
from parsers.csv.parser import Csv
from parsers.grok.parser import Grok
from parsers.syslog.parser import Syslog
from parsers.timestamp import formats
from parsers.timestamp.parser import Timestamp
from parsers.url.parser import Url


def parser(kind: type[Parser], **options: Any) -> Parser:
    return kind.model_validate(options)


CASES = [
    (parser(Grok, patterns=["^%{WORD:verb} %{INT:number:int}$", "^(?<all>.*)$"]), "GET 5"),
    (parser(Csv, names=["a", "b"]), 'x,"y ""z"""'),
    (parser(Syslog, format="rfc3164"), "<34>Oct 11 22:14:15 gate su[7]: failed"),
    (parser(Timestamp, formats=["iso8601", "dd.MM.yyyy"], field="message"), "2026-11-20T06:30:01Z"),
    (parser(Url, field="message"), "http://example.org/a?b=c"),
]


def opened(step: Parser, text: str) -> list[dict[str, Any]]:
    batch = pa.record_batch({"message": [text], OFFSET: [0]})
    events: list[dict[str, Any]] = step.open(batch.schema)(batch).events.to_pylist()
    return events


@pytest.mark.parametrize(("step", "text"), CASES, ids=lambda one: getattr(one, "type", None))
def test_scanners_and_programs_are_made_once_a_process(step: Parser, text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    first = opened(step, text)

    def refuse(*_: object) -> Node:
        raise AssertionError("it is made again")

    monkeypatch.setattr(scanner, "choose_engine", refuse)
    monkeypatch.setattr(formats, "parse_pattern", refuse)
    again = opened(step.model_copy(), text)

    assert again == first
    assert len(again) == 1
