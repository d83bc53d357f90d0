"""Sources, steps and sinks of an imported configuration → the text of a pipeline file."""

from __future__ import annotations

import json
import textwrap
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from etl.config.document.yaml_text import yaml_text
from etl.migration.draft import Draft, DraftStep
from etl.migration.rendering import comment_lines, step_lines
from etl.migration.values import as_type, common_type


@dataclass
class Origin:
    """A source, and the steps that only its events take."""

    options: dict[str, Any]
    draft: Draft = field(default_factory=Draft)
    comments: list[str] = field(default_factory=list)


@dataclass
class Destination:
    """A sink, and the condition of its events."""

    options: dict[str, Any]
    where: str | None = None
    comments: list[str] = field(default_factory=list)
    origin: str | list[str] = "events"
    """The stream or streams that it takes."""


@dataclass
class Topology:
    """What is imported: sources, the steps that all events take, and sinks."""

    name: str
    origins: dict[str, Origin] = field(default_factory=dict)
    draft: Draft = field(default_factory=Draft)
    destinations: dict[str, Destination] = field(default_factory=dict)
    description: str = ""
    comments: list[str] = field(default_factory=list)
    """For the head of the file."""

    def begin(self) -> Draft:
        """The draft of the steps that all events take: behind the only source, or behind all of them."""
        if len(self.origins) == 1:
            (self.draft,) = (one.draft for one in self.origins.values())
        else:
            drafts = [one.draft for one in self.origins.values()]
            hidden = {name for draft in drafts for name in draft.temporary}
            for draft in drafts:
                for name in merged_types(drafts):
                    if name not in hidden:
                        draft.field(name)  # a member of an open object is declared
            self.draft.types = {name: type_ for name, type_ in merged_types(drafts).items() if name not in hidden}
            for draft in drafts:
                known = [name for name, type_ in self.draft.types.items() if draft.types.get(name, type_) != type_]
                draft.set({name: as_type(draft.field(name), self.draft.types[name]) for name in known})
            self.draft.members = [one for draft in drafts for one in draft.members]
            self.draft.certain = set.intersection(*(one.draft.certain for one in self.origins.values()))
        return self.draft

    def stream_of(self, name: str) -> str:
        """The stream of the steps that only a source's events take."""
        return f"{name}_events" if self.origins[name].draft.steps else name

    def finish(self) -> None:
        """Drop what the steps needed only for a moment."""
        for draft in {id(one): one for one in (self.draft, *(origin.draft for origin in self.origins.values()))}.values():
            draft.finish()

    def text(self) -> str:
        origins = self.origins or {"log": Origin({"type": "stdin"})}
        head = f"name: {self.name}\n" + (f"description: {json.dumps(self.description)}\n" if self.description else "")
        drafts = [self.draft, *(one.draft for one in origins.values())]
        functions = {name: {"code": code} for draft in drafts for name, code in draft.functions.items()}
        parts = [comment_lines(self.comments), head]
        parts += [yaml_text({"functions": functions})] if functions else []
        parts += ["sources:\n", *(entry_text(name, one.options, one.comments) for name, one in origins.items()), "streams:\n"]
        if len(origins) == 1:
            parts.append(stream_text("events", next(iter(origins)), self.draft.steps, self.draft.last_comments))
        else:
            names = {name: self.stream_of(name) for name in origins}
            parts += [stream_text(names[n], n, one.draft.steps, []) for n, one in origins.items() if one.draft.steps]
            parts.append(stream_text("events", list(names.values()), self.draft.steps, self.draft.last_comments))
        destinations = self.destinations or {"console": Destination({"type": "console"})}
        for name, sink in destinations.items():
            if sink.where is not None:
                parts.append(stream_text(f"to_{name}", sink.origin, [DraftStep({"type": "filter", "where": sink.where})], []))
        parts.append("sinks:\n")
        for name, sink in destinations.items():
            origin = sink.origin if sink.where is None else f"to_{name}"
            parts.append(entry_text(name, {"from": origin, **sink.options}, sink.comments))
        return "".join(parts)


def entry_text(name: str, options: Mapping[str, Any], comments: list[str]) -> str:
    return textwrap.indent(comment_lines(comments) + yaml_text({name: dict(options)}), "  ")


def stream_text(name: str, origin: str | list[str], steps: list[DraftStep], comments: list[str]) -> str:
    shown = origin if isinstance(origin, str) else f"[{', '.join(origin)}]"
    if not steps:
        return textwrap.indent(comment_lines(comments), "  ") + f"  {name}: {{from: {shown}}}\n"
    return f"  {name}:\n    from: {shown}\n    steps:\n{step_lines(steps, comments)}"


def merged_types(drafts: list[Draft]) -> dict[str, str]:
    """The fields of several streams."""
    types: dict[str, str] = {}
    for draft in drafts:
        for name, type_ in draft.types.items():
            types[name] = common_type(types[name], type_) if name in types else type_
    return types


def free_name(stem: str, taken: Mapping[str, Any]) -> str:
    """The name, with a number where it is taken."""
    number = 2
    name = stem
    while name in taken:
        name, number = f"{stem}_{number}", number + 1
    return name
