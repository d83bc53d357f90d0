"""Sources, steps and sinks of an imported configuration → the text of a pipeline file."""

from __future__ import annotations

import json
import re
import textwrap
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from etl.api import EtlError, Source
from etl.catalogue import installed
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
    joins: str | None = None
    """The sink that also takes these events: it has the same target."""
    steps: list[DraftStep] = field(default_factory=list)
    """Steps before it, after the condition."""

    @property
    def own_steps(self) -> list[DraftStep]:
        """The steps of its own stream; none if it takes another stream as it is."""
        return [*([DraftStep({"type": "filter", "where": self.where})] if self.where is not None else []), *self.steps]

    def stream(self, name: str) -> str | list[str]:
        """The stream or streams that the sink of this name takes."""
        return f"to_{name}" if self.own_steps else self.origin


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
    stream: str = "events"
    """Name of the stream of all events."""

    def begin(self) -> Draft:
        """The draft of the steps that all events take: after the only source, or after all of them."""
        share_standard_input((one.options, one.comments) for one in self.origins.values())
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
            self.draft.origins = drafts
            self.draft.certain = set.intersection(*(one.draft.certain for one in self.origins.values()))
        return self.draft

    def stream_of(self, name: str) -> str:
        """The stream of the steps that only a source's events take."""
        return f"{name}_events" if self.origins[name].draft.steps else name

    def finish(self) -> None:
        """Drop what the steps needed only for a moment."""
        for draft in {id(one): one for one in (self.draft, *(origin.draft for origin in self.origins.values()))}.values():
            draft.finish()
        for origin in self.origins.values():
            given = {name for draft in (self.draft, origin.draft) for step in draft.steps for name in _given_names(step.options)}
            dropped = {name for step in origin.draft.steps if step.options["type"] == "drop" for name in step.options["fields"]}
            gone = [name for name in _conflicting(source_fields(origin.options), given) if name not in dropped]
            if gone:
                origin.draft.steps.insert(0, DraftStep({"type": "drop", "fields": gone}))

    def text(self) -> str:
        """The pipeline file."""
        return whole_text(self.name, [self], self.description, self.comments)

    def functions(self) -> dict[str, dict[str, str]]:
        """Functions in Python that its steps call."""
        drafts = [self.draft, *(one.draft for one in self.origins.values())]
        return {name: {"code": code} for draft in drafts for name, code in draft.functions.items()}

    def source_lines(self) -> list[str]:
        origins = self.origins or {"log": Origin({"type": "stdin"})}
        return [entry_text(name, one.options, one.comments) for name, one in origins.items()]

    def stream_lines(self) -> list[str]:
        """The streams: of each source, of all, and those in front of sinks."""
        origins = self.origins or {"log": Origin({"type": "stdin"})}
        parts: list[str] = []
        if len(origins) == 1:
            parts.append(stream_text(self.stream, next(iter(origins)), self.draft.steps, self.draft.last_comments))
        else:
            names = {name: self.stream_of(name) for name in origins}
            parts += [stream_text(names[n], n, one.draft.steps, []) for n, one in origins.items() if one.draft.steps]
            parts.append(stream_text(self.stream, list(names.values()), self.draft.steps, self.draft.last_comments))
        for name, sink in self.destinations.items():
            if sink.own_steps:
                parts.append(stream_text(f"to_{name}", sink.origin, sink.own_steps, []))
        return parts


def source_fields(options: Mapping[str, Any]) -> list[str]:
    """The fields that a source gives beside the text; none where its options say that only with the environment."""
    try:
        source = installed().families["source"][options["type"]].model_validate(dict(options))
        assert isinstance(source, Source)
        return source.fields().names
    except (KeyError, ValueError, EtlError):
        return []


_CAPTURES = re.compile(r"%\{\w+:([^:{}]+)|\(\?<([\w.@-]+)>|%\{[+*&?]?([\w.@-]+)")


def _given_names(options: Mapping[str, Any]) -> set[str]:
    """The fields that a step may give."""
    fields = options.get("fields")
    names = [options.get("target"), *(fields or ()), *options.get("names", ())]
    if options["type"] == "rename" and isinstance(fields, Mapping):
        names += fields.values()
    texts = [*options.get("patterns", ()), *options.get("pattern_definitions", {}).values(), options.get("pattern", "")]
    names += [name for text in texts for found in _CAPTURES.findall(str(text)) for name in found]
    return {name for name in names if isinstance(name, str) and name}


def _conflicting(fields: Sequence[str], given: set[str]) -> list[str]:
    """The fields that are members of what steps give as values, such as ``log.source.address`` of ``log``."""
    return [
        name
        for name in fields
        if any(name.startswith(f"{one}.") or one.startswith(f"{name}.") for one in given) and name != "message"
    ]


def share_standard_input(sources: Iterable[tuple[dict[str, Any], list[str]]]) -> None:
    """Let the first of several sources read standard input; ``sources``: their options, and comments."""
    standard = [one for one in sources if one[0].get("type") == "stdin"]
    for options, comments in standard[1:]:
        options.clear()
        options.update({"type": "inline", "fields": {"message": "string"}, "rows": []})
        comments.append("standard input has another reader; this source gives no events")


def whole_text(name: str, parts: Sequence[Topology], description: str = "", comments: Sequence[str] = ()) -> str:
    """The pipeline file of topologies that have their sources and streams for themselves; a sink may take streams of several."""
    head = f"name: {name}\n" + (f"description: {json.dumps(description)}\n" if description else "")
    functions = {key: value for one in parts for key, value in one.functions().items()}
    lines = [comment_lines(list(comments)), head, yaml_text({"functions": functions}) if functions else "", "sources:\n"]
    lines += [line for one in parts for line in one.source_lines()]
    lines += ["streams:\n", *(line for one in parts for line in one.stream_lines()), "sinks:\n"]
    sinks = [(key, sink) for one in parts for key, sink in one.destinations.items()]
    for key, sink in sinks or [("console", Destination({"type": "console"}, origin=parts[0].stream))]:
        streams = [sink.stream(key), *(other.stream(name) for name, other in sinks if other.joins == key)]
        taken = streams if len(streams) > 1 else streams[0]
        if sink.joins is None:
            lines.append(entry_text(key, {"from": taken, **sink.options}, sink.comments))
    return "".join(lines)


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
