"""Where the text of a dead letter stops matching the pattern of the parser that rejected it, as the pipeline is now."""

from __future__ import annotations

import json
import re
from contextlib import suppress
from functools import lru_cache

from etl.api import Parser
from etl.config.model import Pipeline
from etl.inference.match_stops import MatchStop
from etl.server.studio.marked_texts import match_stops

MAX_CHARACTERS = 4096
"""Characters of a text that are searched."""

_STEP = re.compile(r"(?P<stream>.+)\[(?P<index>\d+)\] (?P<type>\w+)")


def letter_stop(pipeline: Pipeline, at: str, event: str) -> tuple[str, MatchStop] | None:
    """The text and its stop; None if no parser with patterns rejected it, or if the text matches now."""
    found = _STEP.fullmatch(at)
    stream = pipeline.streams.get(found["stream"]) if found else None
    if found is None or stream is None or int(found["index"]) >= len(stream.steps):
        return None
    parser = stream.steps[int(found["index"])]
    if not isinstance(parser, Parser) or parser.type != found["type"]:
        return None
    text = _text(event, parser.field)
    stop = _stop(parser.model_dump_json(), parser, text) if text else None
    return None if stop is None or stop.column > len(text) else (text, stop)


def _text(event: str, field: str) -> str:
    """The value of a field in the event of a letter, which is a JSON object or the field ``message`` alone."""
    if event.startswith("{"):
        with suppress(ValueError, RecursionError):
            value = json.loads(event)
            for name in [field] if field in value else field.split("."):
                value = value.get(name) if isinstance(value, dict) else None
            if isinstance(value, str):
                return value[:MAX_CHARACTERS]
    return event[:MAX_CHARACTERS]


class _Cached:
    """A parser whose options are the key of the cache: models are not hashable."""

    def __init__(self, options: str, parser: Parser) -> None:
        self.options, self.parser = options, parser

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Cached) and self.options == other.options

    def __hash__(self) -> int:
        return hash(self.options)


def _stop(options: str, parser: Parser, text: str) -> MatchStop | None:
    return _search(_Cached(f"{parser.type} {options}", parser), text)


@lru_cache(maxsize=256)
def _search(cached: _Cached, text: str) -> MatchStop | None:
    """The stop of a text; the page asks again every few seconds, and a pattern is tried piece by piece."""
    return match_stops(cached.parser, [text])[0]
