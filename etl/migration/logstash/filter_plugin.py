"""A filter of Logstash while it is imported: its options, and what all filters do where they succeed."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from etl.migration.draft import NoCounterpartError
from etl.migration.ingest.processor import as_list
from etl.migration.logstash.configuration import Plugin, pairs
from etl.migration.logstash.mutations import add_field
from etl.migration.logstash.references import field_name
from etl.migration.translated import TranslatedSteps
from etl.migration.values import FALSE, Value, choose, either, without_item

COMMON = ("add_field", "add_tag", "remove_field", "remove_tag", "id", "enable_metric", "periodic_flush")


@dataclass
class Filter:
    """A filter while it is imported."""

    name: str
    options: Mapping[str, Any]
    steps: TranslatedSteps
    where: Value | None
    text: str = ""
    """The whole configuration, in which names of fields tell the pattern set."""
    left: list[tuple[str, str]] = field(default_factory=list)
    """Options that are not carried over, with the reason."""
    read: set[str] = field(default_factory=set)

    def option(self, name: str, default: Any = None) -> Any:
        self.read.add(name)
        value = self.options.get(name, default)
        if any(isinstance(item, Plugin) for item in as_list(value)):
            raise NoCounterpartError(f"the option {name!r} is a plugin, and has to be a value")
        return value

    def need(self, name: str) -> Any:
        if name not in self.options:
            raise NoCounterpartError(f"the option {name!r} is missing")
        return self.option(name)

    def field(self, option: str, default: str = "message") -> str:
        return field_name(self.option(option, default))

    def tags(self, option: str, default: str) -> list[Any]:
        """What is done where the filter fails: tags."""
        names = [one for one in as_list(self.option(option, default)) if one]
        return [{"append": {"field": "tags", "value": names, "allow_duplicates": False}}] if names else []

    def finish(self, succeeded: Value | None) -> None:
        """The options that every filter has, where it succeeded."""
        if succeeded == FALSE:
            return
        draft = self.steps.draft
        for name, value in pairs(self.option("add_field")):
            add_field(draft, name, value, succeeded)
        if removed := as_list(self.option("remove_field") or []):
            names = [one for name in removed for one in (field_name(name), *draft.under(field_name(name)))]
            draft.drop(names, draft.keep(succeeded))
        for tag in as_list(self.option("add_tag") or []):
            self.steps.apply("append", {"field": "tags", "value": _template(tag), "allow_duplicates": False}, succeeded)
        tags = draft.field("tags")
        for tag in as_list(self.option("remove_tag") or []):
            if tags.is_array:
                draft.set({"tags": choose(succeeded, without_item(tags, str(tag)), tags)})
                tags = draft.field("tags")


def _template(text: Any) -> str:
    """``%{[a][b]}`` as a template of ingest processors."""
    return re.sub(r"%\{([^{}+]+)\}", lambda found: "{{{" + field_name(found[1]) + "}}}", str(text))


def any_of(one: Value | None, other: Value | None) -> Value | None:
    """The condition that one of two holds; None, which always holds, if one is None."""
    return None if one is None or other is None else either(one, other)
