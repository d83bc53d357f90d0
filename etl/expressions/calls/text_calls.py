"""Binds calls of text functions."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from etl.expressions import bound_node as b
from etl.expressions.bound_node import BoundNode
from etl.expressions.calls import arrays
from etl.expressions.calls.arguments import MisuseError, as_text, no_arrow_form, text_literal, whole_literal
from etl.expressions.casts import cast
from etl.expressions.patterns import like
from etl.expressions.rows import ActiveRows, broadcast
from etl.expressions.values import addresses, longer_texts, texts
from etl.expressions.widening import ATOMIC, BOOLEAN, NULL, STRING


def text_function(kernel: Callable[[Any], Any], type_: pa.DataType = STRING) -> Callable[[BoundNode], BoundNode]:
    """Binds a function of one text to a kernel."""
    return lambda value: b.apply(type_, kernel, as_text(value))


def substring(text: BoundNode, position: BoundNode, count: BoundNode | None = None) -> BoundNode:
    at, length = whole_literal(position), None if count is None else whole_literal(count)
    if at is None or (count is not None and length is None) or at < -_MAX_FROM_END:
        return no_arrow_form("substring() with computed or far positions", STRING)
    return b.apply(STRING, partial(texts.substring, at, length), as_text(text))


_MAX_FROM_END = 1000
"""Characters from the end: Spark computes calls with a position further from it."""


def left(text: BoundNode, count: BoundNode) -> BoundNode:
    number = whole_literal(count)
    return (
        no_arrow_form("left() of a computed length", STRING)
        if number is None
        else b.apply(STRING, partial(texts.substring, 1, number), as_text(text))
    )


def right(text: BoundNode, count: BoundNode) -> BoundNode:
    number = whole_literal(count)
    if number is None:
        return no_arrow_form("right() of a computed length", STRING)
    start, stop = (-number, None) if number > 0 else (0, 0)
    return b.apply(STRING, lambda x: pc.utf8_slice_codeunits(x, start, stop), as_text(text))


def split_part(text: BoundNode, delimiter: BoundNode, index: BoundNode) -> BoundNode:
    separator, number = text_literal(delimiter), whole_literal(index)
    if separator is None or number is None:
        return no_arrow_form("split_part() with a computed delimiter or index", STRING)
    if number == 0:
        raise MisuseError("split_part() counts parts from 1, or from -1 at the end: 0 is not the number of a part")
    return b.apply(STRING, partial(texts.split_part, separator, number), as_text(text))


def replace(text: BoundNode, old: BoundNode, new: BoundNode | None = None) -> BoundNode:
    searched, given = text_literal(old), "" if new is None else text_literal(new)
    if searched is None or given is None:
        return no_arrow_form("replace() with a computed text", STRING)
    if len(given) <= longer_texts.GROWTH * len(searched) or not searched:
        return b.apply(STRING, partial(texts.replace, searched, given), as_text(text))
    return b.apply_failing(STRING, partial(longer_texts.replace_all, searched, given), as_text(text))


def contains(text: BoundNode, part: BoundNode) -> BoundNode:
    searched = text_literal(part)
    if searched is None:
        return no_arrow_form("contains() with a computed text", BOOLEAN)
    return b.apply_failing(BOOLEAN, like.contains(searched), as_text(text))


def part_test(kernel: Callable[[Any, str], Any], name: str) -> Callable[[BoundNode, BoundNode], BoundNode]:
    """Binds `startswith` and `endswith`, whose second argument is a constant text."""

    def build(text: BoundNode, part: BoundNode) -> BoundNode:
        searched = text_literal(part)
        if searched is None:
            return no_arrow_form(f"{name}() with a computed text", BOOLEAN)
        return b.apply(BOOLEAN, lambda x: kernel(x, searched), as_text(text))

    return build


def concat(*parts: BoundNode) -> BoundNode:
    """``concat`` and ``||``: null if a part is null."""
    if parts and all(pa.types.is_list(part.type) for part in parts):
        return arrays.concat(*parts)
    if any(not _is_scalar(part) for part in parts):
        return no_arrow_form("concat() of arrays or binaries", NULL)
    return b.apply(STRING, texts.concat, *map(as_text, parts)) if parts else b.literal("", STRING)


def concat_ws(separator: BoundNode, *parts: BoundNode) -> BoundNode:
    if any(not _is_scalar(part) for part in parts):
        return no_arrow_form("concat_ws() of arrays", STRING)
    bounds = [as_text(part) for part in (separator, *parts)]
    runs = [part.run for part in bounds if part.run is not None]

    def run(rows: Any) -> Any:
        first, *others = [evaluate(rows) for evaluate in runs]
        if not others:
            return pc.if_else(pc.is_valid(first), "", pa.scalar(None, STRING))
        return texts.concat_ws(first, *others)

    return b.lazily(STRING, run, *bounds)


def _is_scalar(value: BoundNode) -> bool:
    return value.type in ATOMIC or value.type == NULL


def ip_in(address: BoundNode, *networks: BoundNode) -> BoundNode:
    names = [text_literal(network) for network in networks]
    if None in names:
        return no_arrow_form("ip_in() with a computed network", BOOLEAN)
    try:
        inside = addresses.contains(addresses.parse_networks([name for name in names if name is not None]))
    except ValueError as error:
        raise MisuseError(str(error), "bad-network") from error
    return b.apply(BOOLEAN, inside, as_text(address))


def entropy(text: BoundNode) -> BoundNode:
    """Shannon's entropy of a text's bytes."""
    value = as_text(text)

    def run(rows: ActiveRows) -> Any:
        from etl.expressions.values.entropy import entropies

        assert value.run is not None
        return entropies(broadcast(value.run(rows), rows.length))

    return b.lazily(pa.float64(), run, value)


def community_id(
    source: BoundNode,
    destination: BoundNode,
    source_port: BoundNode,
    destination_port: BoundNode,
    transport: BoundNode,
    seed: BoundNode | None = None,
) -> BoundNode:
    """The Community ID of a flow; ports may be null for a protocol without ports."""
    number = 0 if seed is None else whole_literal(seed)
    if number is None:
        return no_arrow_form("community_id() with a computed seed", STRING)
    if not 0 <= number < 65536:
        raise MisuseError("the seed of community_id() is a whole number from 0 to 65535")
    ports = (cast(port, pa.int64()) for port in (source_port, destination_port))
    parts = (as_text(source), as_text(destination), *ports, as_text(transport))

    def run(rows: ActiveRows) -> Any:
        from etl.expressions.values.community_id import community_ids

        one, other, port, other_port, protocol = (
            broadcast(part.run(rows), rows.length) for part in parts if part.run is not None
        )
        return community_ids(one, other, port, other_port, protocol, number)

    return b.lazily(STRING, run, *parts)
