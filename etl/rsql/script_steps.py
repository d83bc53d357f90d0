"""The steps of a script so far, and how a call that changes the event adds to them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from etl.rsql.problems import SourceError
from etl.rsql.script_scope import ScriptScope
from etl.rsql.script_tree import Expression, FunctionCall

NEEDS_FIELDS = "the fields of the event are not known here"


class StepList:
    """The steps so far. Values that do not depend on each other are set in one step."""

    def __init__(self, scope: ScriptScope) -> None:
        self.scope = scope
        self.patterns: dict[str, str] = {}
        """Patterns that the script adds for grok."""
        self._steps: list[dict[str, Any]] = []

    def set(self, field: str, text: str) -> None:
        """Set a field; the scope knows which fields the text reads."""
        last = self._steps[-1] if self._steps and self._steps[-1]["type"] == "set" else None
        given = last["fields"] if last else {}
        if last is None or field in given or self.scope.reads & given.keys():
            given = {}
            self._steps.append({"type": "set", "fields": given})
        given[field] = text
        self.scope.add([field])
        self.scope.reads.clear()

    def add(self, step: dict[str, Any]) -> None:
        self._steps.append(step)
        self.scope.reads.clear()

    def finished(self) -> list[dict[str, Any]]:
        return self._steps


@dataclass(frozen=True)
class CallCompiler:
    """How a call changes the event: ``run(steps, call, target, flag)``; ``target`` takes the value that it gives, too."""

    run: Callable[[StepList, FunctionCall, str | None, str | None], None]
    in_branch: bool = False
    """Whether it may stand in a branch of ``if``, whose flag is then a condition of its values."""


def arguments_of(call: FunctionCall, min_arguments: int, max_arguments: int | None = None) -> tuple[Expression, ...]:
    """The arguments. Raises SourceError for another number."""
    count = len(call.arguments)
    if count < min_arguments or (max_arguments is not None and count > max_arguments):
        counts = (
            str(min_arguments)
            if max_arguments == min_arguments
            else f"{min_arguments} to {max_arguments}"
            if max_arguments is not None
            else f"{min_arguments} or more"
        )
        raise SourceError("wrong-arguments", f"{call.name} takes {counts} arguments, not {count}", call.at)
    return call.arguments
