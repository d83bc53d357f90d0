"""Running a scanner over the values of an expression: arrays of texts, or a scalar that stands for all rows.

Each function here makes a kernel for `etl.expressions.bound.apply_failing`; what it scans for is compiled when texts come.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

from etl.columns.texts import owned_array
from etl.expressions.endings import at_end, captured, hasty
from etl.expressions.rows import Rows
from etl.scanner.char_class import ANY
from etl.scanner.scanner import Scan, Scanner
from etl.scanner.tree import Capture, Chars, Edge, Node, Repeat, sequence

Kernel: TypeAlias = Callable[[Rows, Any], Any]

ALL = "all"
"""The name of what is captured."""


def trees(tree: Node, group: int | None) -> Node:
    """What is scanned for when only this group is wanted, 0 for all, None for nothing but whether it is there."""
    return hasty(at_end(tree)) if group is None else at_end(captured(tree, group, ALL))


def matches(tree: Node) -> Kernel:
    """Whether it is found."""
    return _scanning(trees(tree, None), lambda text, scan: _null_like(text, pa.array(scan.pattern >= 0)))


def group_text(tree: Node, group: int) -> Kernel:
    """A group's text: empty where it took no part or nothing was found."""
    return _scanning(trees(tree, group), lambda text, scan: _null_like(text, _without_nulls(owned_array(scan.captures[ALL]))))


def found_text(tree: Node) -> Kernel:
    """All that is found: null where that is nothing."""
    return _scanning(trees(tree, 0), lambda text, scan: owned_array(scan.captures[ALL]))


def place(tree: Node) -> Kernel:
    """At which character it is found, from 1, or 0. The tree must not match the empty text."""
    front = Capture(Repeat(Chars(ANY), 0, None, "lazy"), ALL)
    return _scanning(sequence([Edge("\\A"), front, at_end(tree)]), _places)


def _places(text: pa.Array, scan: Scan) -> pa.Array:
    front = _without_nulls(owned_array(scan.captures[ALL]))
    counted = pc.if_else(pa.array(scan.pattern >= 0), pc.add(pc.utf8_length(front), 1), 0)
    return _null_like(text, pc.cast(counted, pa.int32()))


def _scanning(tree: Node, answer: Callable[[pa.Array, Scan], pa.Array]) -> Kernel:
    """A text that no automaton takes, and that other engines take too long for, fails."""
    scanner = Scanner([tree])
    too_long = f"a regular expression took more than {scanner.timeout.total_seconds():g} s"

    def run(rows: Rows, texts: Any) -> Any:
        if isinstance(texts, pa.Scalar):
            return run(rows, pa.array([texts.as_py()], pa.string()))[0]
        array = texts.combine_chunks() if isinstance(texts, pa.ChunkedArray) else texts
        scan = scanner.scan(array)
        if scan.timed_out is not None:
            rows.fail(pa.array(scan.timed_out), too_long)
        return answer(array, scan)

    return run


def _null_like(text: pa.Array, values: pa.Array) -> pa.Array:
    """The values, null where the text is."""
    return pc.if_else(text.is_valid(), values, pa.scalar(None, values.type)) if text.null_count else values


def _without_nulls(found: pa.Array) -> pa.Array:
    """Nulls as empty texts: they have no bytes, so only the bitmap goes."""
    return pa.Array.from_buffers(found.type, len(found), [None, *found.buffers()[1:]], offset=found.offset)
