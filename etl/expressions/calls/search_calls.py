"""Binds ``instr``, ``locate`` and ``position``: the position of a text in another one, counted from 1."""

from __future__ import annotations

from functools import partial
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from etl.expressions import bound_node as b
from etl.expressions.bound_node import BoundNode
from etl.expressions.calls.arguments import as_text, no_arrow_form, text_literal, whole_literal
from etl.expressions.widening import INT32


def instr(text: BoundNode, part: BoundNode) -> BoundNode:
    """``instr(text, 'part')``: 0 if it is not there."""
    return locate(part, text)


def locate(part: BoundNode, text: BoundNode, start: BoundNode | None = None) -> BoundNode:
    """``locate('part', text, start)``: the first position from ``start`` on, 0 if there is none."""
    searched, first = text_literal(part), 1 if start is None else whole_literal(start)
    if searched is None or first is None:
        return no_arrow_form("a search for a computed text or from a computed position", INT32)
    return b.apply(INT32, partial(_positions, searched, first), as_text(text))


def _positions(searched: str, first: int, texts: Any) -> Any:
    """Positions in characters. Those of Arrow are in bytes, the same in ASCII texts; Python searches the others."""
    if isinstance(texts, pa.Scalar):
        return _positions(searched, first, pa.array([texts.as_py()], pa.string()))[0]
    if first < 1 or not searched:
        return pc.if_else(pc.is_valid(texts), pa.scalar(int(not searched and first > 0), INT32), pa.scalar(None, INT32))
    texts = pc.cast(texts, pa.string())
    rest = pc.utf8_slice_codeunits(texts, first - 1, None) if first > 1 else texts
    found = pc.cast(pc.find_substring(rest, searched), INT32)
    positions = pc.if_else(pc.less(found, 0), pa.scalar(0, INT32), pc.add(found, pa.scalar(first, INT32)))
    other = pc.and_(pc.greater(found, 0), pc.invert(pc.string_is_ascii(rest)))
    other = pc.fill_null(other, False)
    if not other.true_count:
        return positions
    counted = [text.find(searched) + first for text in rest.filter(other).to_pylist()]
    return pc.replace_with_mask(positions, other, pa.array(counted, INT32))
