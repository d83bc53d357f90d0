"""A draft → the text of a pipeline file, with its comments."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Mapping, Sequence
from typing import Any

from etl.config.document.yaml_text import yaml_text
from etl.migration.draft import Draft, DraftStep

_WIDTH = 120


def render(name: str, description: str, source: Mapping[str, Any], draft: Draft, sink: Mapping[str, Any]) -> str:
    """A pipeline of one source, one stream and one sink."""
    head = {"name": name, **({"description": description} if description else {}), "sources": {"log": dict(source)}}
    steps = step_lines(draft.steps, draft.last_comments)
    streams = f"streams:\n  events:\n    from: log\n    steps:\n{steps}" if steps else "streams:\n  events: {from: log}\n"
    functions = (
        {"functions": {name: {"code": _escaped(code)} for name, code in draft.functions.items()}} if draft.functions else {}
    )
    return yaml_text({**head, **functions}) + streams + yaml_text({"sinks": {"events": {"from": "events", **sink}}})


def step_lines(steps: Sequence[DraftStep], comments: Sequence[str]) -> str:
    """The steps of a stream, each under its comments, and the comments at the end."""
    lines = "".join(comment_lines(step.comments) + yaml_text([_escaped(step.options)]) for step in steps)
    return textwrap.indent(lines + comment_lines(comments), "      ")


_NO_VARIABLE = re.compile(r"(?<!\$)\$\{(?![A-Za-z_]\w*(?::[-?][^{}]*)?\})")
"""The characters ``${`` that begin no variable of the environment, such as those of a regular expression."""


def _escaped(value: Any) -> Any:
    """The value with ``$${`` where a text has ``${`` and no variable."""
    if isinstance(value, str):
        return _NO_VARIABLE.sub("$${", value)
    if isinstance(value, Mapping):
        return {key: _escaped(one) for key, one in value.items()}
    return [_escaped(one) for one in value] if isinstance(value, list) else value


def comment_lines(comments: Sequence[str]) -> str:
    lines = (line for text in comments for line in textwrap.wrap(" ".join(text.split()), _WIDTH - 2))
    return "".join(f"# {line}\n" for line in lines)
