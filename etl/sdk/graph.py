"""A pipeline as a picture: sources, streams with their steps, and sinks, from left to right, as inline SVG."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from html import escape
from typing import Any

from etl.sdk.display import printable

_WIDTH, _GAP, _ROW_GAP, _MARGIN, _LINE, _CHARACTERS = 190, 70, 22, 10, 16, 26
"""Sizes in pixels: of a box, between columns, between boxes, around all, of a line; and the characters of a line."""

_BOLD_CHARACTERS = 22
"""Characters of a title, which is bold."""

_MAX_STEPS = 12
"""Steps of a stream that are shown."""

_FILLS = {"source": "#e3f2fd", "stream": "#f5f5f5", "sink": "#e8f5e9", "dead": "#fbe9e7"}

_Value = Mapping[str, Any]


@dataclass
class DiagramNode:
    """A box of the picture; ``inputs`` are the names of the boxes before it."""

    kind: str
    title: str
    lines: Sequence[str]
    inputs: Sequence[str] = ()
    column: int = 0
    top: int = 0

    @property
    def height(self) -> int:
        """In pixels."""
        return _LINE * (1 + len(self.lines)) + 14

    @property
    def left(self) -> int:
        """In pixels."""
        return _MARGIN + self.column * (_WIDTH + _GAP)


@dataclass
class PipelineDiagram:
    """The boxes of a pipeline by name; a sink's name begins with a colon."""

    boxes: dict[str, DiagramNode] = field(default_factory=dict)

    def svg(self) -> str:
        """The picture; all texts are escaped."""
        self._arrange()
        width = max((box.left + _WIDTH for box in self.boxes.values()), default=0) + _MARGIN
        height = max((box.top + box.height for box in self.boxes.values()), default=0) + _MARGIN
        parts = [part for box in self.boxes.values() for part in self._edges(box)]
        parts += [part for box in self.boxes.values() for part in _shape(box)]
        style = 'font-family="sans-serif" font-size="12" style="max-width:100%"'
        return (
            f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" viewBox="0 0 {width} {height}" {style}>'
            f"{''.join(parts)}</svg>"
        )

    def _arrange(self) -> None:
        """Each box is one column after the last of its inputs; boxes of a column stand one below the other."""
        for box in self.boxes.values():
            box.column = 1 + max((self.boxes[name].column for name in box.inputs), default=-1)
        bottoms: dict[int, int] = {}
        for box in self.boxes.values():
            box.top = bottoms.get(box.column, _MARGIN)
            bottoms[box.column] = box.top + box.height + _ROW_GAP

    def _edges(self, box: DiagramNode) -> Sequence[str]:
        return [_edge(self.boxes[name], box) for name in box.inputs]


def picture(value: _Value, counts: Mapping[str, str] | None = None) -> PipelineDiagram:
    """The picture of a pipeline file's value; ``counts`` are lines below boxes: by source, and by sink with a colon before it."""
    made, counts = PipelineDiagram(), counts or {}
    sources, streams, sinks = _long_form(value)
    for name, source in sources.items():
        _add(made, name, DiagramNode("source", name, [str(source.get("type", "?"))]), counts)
    for name in _order(streams, set(made.boxes)):
        stream = streams[name]
        types = [str(step.get("type", "?")) for step in stream.get("steps", ()) if isinstance(step, Mapping)]
        more = [f"… {len(types) - _MAX_STEPS} more"] if len(types) > _MAX_STEPS else []
        _add(made, name, DiagramNode("stream", name, [*types[:_MAX_STEPS], *more], _names(stream, sources, made)), counts)
    for name, sink in sinks.items():
        _add(made, f":{name}", DiagramNode("sink", name, [str(sink.get("type", "?"))], _names(sink, sources, made)), counts)
    letters = value.get("dead_letters")
    if isinstance(letters, Mapping):
        _add(made, ":", DiagramNode("dead", "dead letters", [str(letters.get("type", "?"))]), counts)
    return made


def _add(made: PipelineDiagram, name: str, box: DiagramNode, counts: Mapping[str, str]) -> None:
    box.lines = [*box.lines, *([counts[name]] if name in counts else [])]
    made.boxes[name] = box


def _long_form(value: _Value) -> tuple[_Value, _Value, _Value]:
    """Sources, streams and sinks by name, whichever form the file has."""
    if "source" not in value:
        return value.get("sources", {}), value.get("streams", {}), value.get("sinks", {})
    streams = {"steps": {"from": "main", "steps": value["steps"]}} if value.get("steps") else {}
    sinks = {"main": {"from": "steps" if streams else "main", **value["sink"]}} if "sink" in value else {}
    return {"main": value["source"]}, streams, sinks


def _names(part: _Value, sources: _Value, made: PipelineDiagram) -> list[str]:
    given = part.get("from", next(iter(sources), ""))
    return [name for name in (given if isinstance(given, list) else [given]) if name in made.boxes]


def _order(streams: _Value, known: set[str]) -> list[str]:
    """Streams after their inputs; those of a cycle come last."""
    order: list[str] = []
    left = dict(streams)
    while left:
        ready = [name for name, one in left.items() if not set(_input_names(one)) & (left.keys() - {name})]
        for name in ready or list(left):
            order.append(name)
            left.pop(name)
    return order


def _input_names(stream: _Value) -> list[str]:
    given = stream.get("from", [])
    return given if isinstance(given, list) else [given]


def _shape(box: DiagramNode) -> list[str]:
    radius = 14 if box.kind == "source" else 3
    rect = (
        f'<rect x="{box.left}" y="{box.top}" width="{_WIDTH}" height="{box.height}" rx="{radius}" fill="{_FILLS[box.kind]}" '
        'stroke="#90a4ae"/>'
    )
    texts = [_text(box, box.title, 0, "bold"), *(_text(box, line, number, "normal") for number, line in enumerate(box.lines, 1))]
    return [rect, *texts]


def _text(box: DiagramNode, text: str, number: int, weight: str) -> str:
    x, y = box.left + 10, box.top + 18 + number * _LINE
    shown = printable(text, _BOLD_CHARACTERS if weight == "bold" else _CHARACTERS)
    return f'<text x="{x}" y="{y}" font-weight="{weight}" fill="#263238">{escape(shown)}</text>'


def _edge(before: DiagramNode, after: DiagramNode) -> str:
    x, y = before.left + _WIDTH, before.top + before.height // 2
    to_x, to_y = after.left, after.top + after.height // 2
    middle = (x + to_x) // 2
    return f'<path d="M{x},{y} C{middle},{y} {middle},{to_y} {to_x},{to_y}" fill="none" stroke="#90a4ae" stroke-width="1.5"/>'
