"""Lists of processors of Filebeat → steps.

Where a processor fails and is not told to ignore it, the event goes on as it is, and the processors after it do not run.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from etl.migration.draft import NoCounterpartError
from etl.migration.filebeat.conditions import condition
from etl.migration.filebeat.field_processors import PROCESSORS, ignores_failure
from etl.migration.given_options import GivenOptions
from etl.migration.ingest.processor import as_list
from etl.migration.translated import TranslatedSteps
from etl.migration.values import FALSE, Value, both, negation

Locate = Callable[[Any], str]


@dataclass
class ProcessorTranslation:
    """Translates lists of processors to steps of a draft."""

    steps: TranslatedSteps
    locate: Locate
    alive: Value | None = None
    """Which events no processor of this list has failed for; None: all."""

    def run(self, given: Any, where: Value | None = None) -> None:
        """A list of processors."""
        for one in as_list(given or []):
            if isinstance(one, Mapping):
                self._one(one, where)

    def _one(self, one: Mapping[str, Any], where: Value | None) -> None:
        if "if" in one:
            self._branch(one, where)
            return
        for name, options in one.items():
            self.steps.report.total += 1
            options = options if isinstance(options, Mapping) else {}
            try:
                self._processor(name, options, where)
            except (NoCounterpartError, RecursionError) as error:
                self.steps.leave(self.locate(one), f"processor {name}", str(error) or "too deep")

    def _branch(self, one: Mapping[str, Any], where: Value | None) -> None:
        try:
            test = self.steps.draft.keep(condition(self.steps.draft, one["if"])) or FALSE
        except (NoCounterpartError, RecursionError) as error:
            for name in ("then", "else"):
                for other in as_list(one.get(name) or []):
                    self.steps.report.total += 1
                    self.steps.leave(self.locate(one), f"processor {next(iter(other), '?')}", f"its condition: {error}")
            return
        self.run(one.get("then"), both(where, test))
        self.run(one.get("else"), both(where, negation(test)))

    def _processor(self, name: str, options: Mapping[str, Any], where: Value | None) -> None:
        run = PROCESSORS.get(name)
        if run is None:
            raise NoCounterpartError(NO_COUNTERPART.get(name, "a processor that is unknown here"))
        if "when" in options:
            where = both(where, condition(self.steps.draft, options["when"]))
        where = both(where, self.alive)
        if where == FALSE:
            return
        given = GivenOptions({key: value for key, value in options.items() if key != "when"})
        where = self.steps.draft.keep(where)
        failure = run(self.steps, given, where)
        if failure is not None and not ignores_failure(given):
            self.alive = both(self.alive, negation(failure))
        for option, reason in given.left(_WITHOUT_EFFECT).items():
            self.steps.report.total += 1
            self.steps.leave(self.locate(options), f"processor {name}.{option}", reason)


_WITHOUT_EFFECT = re.compile("ignore_missing|ignore_failure|fail_on_error|tag|id|test|ignore_non_existent")


_METADATA = "an event has nothing of its host here; a step `set` adds what does not change"
NO_COUNTERPART: Mapping[str, str] = {
    "add_cloud_metadata": _METADATA,
    "add_docker_metadata": "the recipe docker-logs takes the container's id from the path; names are a look-up table",
    "add_formatted_index": "the sink names the index",
    "add_host_metadata": _METADATA,
    "add_id": "an event has an identity: the sink elasticsearch makes the document's id of it",
    "add_kubernetes_metadata": "the recipe cri-logs takes namespace, pod and container from the path; labels are a look-up table",
    "add_locale": _METADATA,
    "add_nomad_metadata": _METADATA,
    "add_observer_metadata": _METADATA,
    "add_process_metadata": _METADATA,
    "cache": "a look-up table and the step `lookup`",
    "decode_duration": "an expression: parse_duration(field)",
    "decompress_gzip_field": "the step `decode` with `from: gzip`",
    "dns": "names are not asked for; a look-up table over HTTP can do it",
    "fingerprint": "an expression: sha2(concat_ws('|', a, b), 256); other hashes than Filebeat's",
    "parse_aws_vpc_flow_log": "the recipe aws-vpc-flow",
    "rate_limit": "the step `throttle`",
    "script": "code in JavaScript; write it as a function in Python, which the step `python` calls",
    "translate_sid": "a look-up table",
}
"""Processors without a counterpart, and what to do instead."""
