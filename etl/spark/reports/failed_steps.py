"""Finds the step in which a value failed: Spark quotes the expression, and steps list the expressions that Spark computes.

A task's error ends in the query's context: ``== SQL (line 1, position 5) ==``, the line of the expression, and carets below the
part that failed. For an expression that a step builds itself, the error names our file that called Spark instead.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from etl.api import SparkStep, cut
from etl.plan.segments import OptionPath, StepNode

_CONTEXT = re.compile(r"^== SQL.*\(line \d+, position \d+\) ==\n(?P<line>.*)\n(?P<carets> *\^+)", re.MULTILINE)
_CALLER = re.compile(r"^\"(?P<call>\w+)\" was called from\s+.*[/\\]etl[/\\]steps[/\\](?P<module>\w+)\.py", re.MULTILINE)
_MAX_SHOWN_CHARACTERS = 80
_MAX_STEPS = 5


class _Option(NamedTuple):
    node: StepNode
    path: OptionPath


def describe_failed_step(full_text: str, steps: Sequence[StepNode]) -> str:
    """The end of a message: the failed expression and its option, else all steps that Spark computes here."""
    found = _CONTEXT.search(full_text)
    if found is not None:
        fragment = found["line"][found["carets"].count(" ") : len(found["carets"])]
        options = _options_with_line(found["line"], steps) or _options_with_part(fragment, steps)
        if options:
            options_named = ", or in ".join(map(_describe_option, options[:_MAX_STEPS]))
            return f"; it is {cut(fragment, _MAX_SHOWN_CHARACTERS)} in {options_named}"
    caller = _CALLER.search(full_text)
    callers = [node for node in steps if caller is not None and node.step.type == caller["module"]]
    if len(callers) == 1:
        return f"; it is in {describe_step(callers[0])}"
    return f"; Spark computes {', '.join(describe_step(node) for node in steps[:_MAX_STEPS])} here" if steps else ""


def describe_step(node: StepNode) -> str:
    """A step with its option in the file."""
    return f"{node.id} (line {node.location[0]}, column {node.location[1]})" if node.location else node.id


def _options_with_line(line: str, steps: Sequence[StepNode]) -> list[_Option]:
    """The options whose expressions have this line, which Spark may have cut at both ends."""
    quoted = line.strip().removeprefix("...").removesuffix("...").strip()
    is_cut = quoted != line.strip()
    texts = _texts(steps)
    lines = ((option, one.strip()) for option, text in texts for one in text.split("\n"))
    found = (option for option, one in lines if (quoted in one if is_cut else quoted == one))
    return list({(option.node.id, option.path): option for option in found}.values())


def _options_with_part(fragment: str, steps: Sequence[StepNode]) -> list[_Option]:
    part = " ".join(fragment.split())
    return [option for option, text in _texts(steps) if part and part in " ".join(text.split())]


def _texts(steps: Sequence[StepNode]) -> Iterator[tuple[_Option, str]]:
    for node in steps:
        if isinstance(node.step, SparkStep):
            for path, text in node.step.spark_expressions(node.incoming).items():
                yield _Option(node, path), text


def _describe_option(option: _Option) -> str:
    """``stream[1] set fields.n (line 7, column 22)``."""
    node, path = option
    known = (node.options[path[:length]] for length in range(len(path), 0, -1) if path[:length] in node.options)
    at = next(known, node.location)
    return f"{node.id} {'.'.join(map(str, path))}" + (f" (line {at[0]}, column {at[1]})" if at else "")
