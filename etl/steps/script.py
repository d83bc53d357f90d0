"""Run a script of RocketMQ Streams, as the steps that it is compiled to."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal

from pydantic import Field

from etl.api import FieldName, Finding, PlanError, Schema, Step, TypeName, visible
from etl.steps.drop import Drop
from etl.steps.filter import Filter
from etl.steps.keep import Keep
from etl.steps.rename import Rename
from etl.steps.set import Set
from etl.steps.unnest import Unnest


class Script(Step):
    """Run a script of RocketMQ Streams: ``level=lower(level);if(level=='debug'){break();};``.

    It is compiled to the steps ``set``, ``filter``, ``rename``, ``keep``, ``drop`` and ``unnest``, and runs as they do; ``etl
    convert`` prints them. Functions have the meaning that their documents give them, not that of the old engine where it
    differs; a value that cannot be computed is null, and no event fails. A name that is not a field of the event is null, with a
    warning. Functions that cannot exist here, such as those of threat intelligence or of Groovy, are errors that say what to
    use. `grok` in a script needs ``etl convert``, or a step of its own.

    A function whose fields depend on the data, such as ``parse_express(log,' ')`` or ``json_expand('text')``, gives those of
    ``fields``.

    ```yaml
    type: script
    script: |
      level=lower(level);
      if(equal(level,'debug')){break();};
      address=regexGroup(message,'ip=([0-9.]+)');
      rm(message);
    ```
    """

    type: Literal["script"] = "script"
    script: str = Field(
        min_length=1, description="The script.", examples=["host=lower(host);if(isNull(user)){user='unknown';};rm(message);"]
    )

    declared: Mapping[FieldName, TypeName] = Field(
        default_factory=dict,
        alias="fields",
        description="Fields with their types that functions give whose names only the run shows: the keys of parse_express, the "
        "members of a JSON text.",
        examples=[{"src": "string", "port": "int"}],
    )

    def check(self, incoming: Schema) -> Iterable[Finding]:
        from etl.rsql.problems import SourceError

        try:
            steps, warnings = self._compile(incoming)
        except SourceError as error:
            for one in error.all:
                yield Finding(one.code, str(one), ("script",), one.hint, at=one.at)
            return
        for message, at in warnings.items():
            yield Finding(
                "unknown-field" if "no field" in message else "no-effect", message, ("script",), at=at, severity="warning"
            )
        for step in steps:
            for finding in step.check(incoming):
                if finding.severity == "error":
                    yield Finding(finding.code, f"in {step.type}: {finding.message}", ("script",), finding.hint)
            incoming = step.fields(incoming)

    def fields(self, incoming: Schema) -> Schema:
        for step in self._steps(incoming):
            incoming = step.fields(incoming)
        return incoming

    def parts(self, incoming: Schema) -> Sequence[Step]:
        return self._steps(incoming) or (Filter(where="true"),)

    def _steps(self, incoming: Schema) -> tuple[Step, ...]:
        """The steps; none for a script with errors."""
        from etl.rsql.problems import SourceError

        try:
            return self._compile(incoming)[0]
        except SourceError:
            return ()

    def _compile(self, incoming: Schema) -> tuple[tuple[Step, ...], Mapping[str, int]]:
        """The steps, and warnings, each with its location. Raises SourceError."""
        from etl.rsql.problems import SourceError
        from etl.rsql.scripts import convert_script

        types = {field.name: field.type for field in visible(incoming)}
        options, scope = convert_script(self.script, types, self.declared)
        if any(one["type"] not in _STEPS for one in options):
            hint = "put a step grok before this one, or let etl convert print the steps of the script"
            raise SourceError("unsupported-script", "grok cannot stand in a step script", 0, hint)
        return tuple(_make_step(one) for one in options), scope.warnings


_STEPS: Mapping[str, type[Step]] = {"set": Set, "filter": Filter, "rename": Rename, "keep": Keep, "drop": Drop, "unnest": Unnest}


def _make_step(options: Mapping[str, Any]) -> Step:
    try:
        return _STEPS[options["type"]].model_validate(options)
    except ValueError as error:
        raise PlanError(f"the script gives a step {options['type']} that cannot be: {error}") from error
