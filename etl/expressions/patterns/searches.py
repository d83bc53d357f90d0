"""Regular expression searches with the scanner, over arrays of texts or a scalar for all rows.

Each function returns a kernel for `etl.expressions.bound_node.apply_failing`; its automaton is compiled at the first texts.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

from etl.columns.texts import materialize_array
from etl.expressions.patterns.rewrites import make_lazy, simplify_end, with_capture
from etl.expressions.rows import ActiveRows
from etl.scanner.char_class import ANY
from etl.scanner.scanner import Scan, Scanner
from etl.scanner.tree import Anchor, Capture, Chars, Node, Repeat, sequence

Kernel: TypeAlias = Callable[[ActiveRows, Any], Any]

ALL = "all"
"""The name of the capture."""


def search_tree(tree: Node, group: int | None) -> Node:
    """The pattern to scan for if this group is needed, 0 for the whole match, None for whether there is a match."""
    return make_lazy(simplify_end(tree)) if group is None else simplify_end(with_capture(tree, group, ALL))


def matches(tree: Node) -> Kernel:
    """Whether there is a match."""
    return _make_kernel(search_tree(tree, None), lambda text, scan: _null_like(text, pa.array(scan.pattern >= 0)))


def group_text(tree: Node, group: int) -> Kernel:
    """A group's text; empty if the group took no part or there is no match."""
    return _make_kernel(
        search_tree(tree, group), lambda text, scan: _null_like(text, _without_nulls(materialize_array(scan.captures[ALL])))
    )


def matched_text(tree: Node) -> Kernel:
    """The matched text; null if there is none, or if it is empty."""
    return _make_kernel(search_tree(tree, 0), lambda text, scan: materialize_array(scan.captures[ALL]))


def match_position(tree: Node) -> Kernel:
    """The position of the match in characters, from 1; 0 if there is none. The tree must not match the empty text."""
    front = Capture(Repeat(Chars(ANY), 0, None, "lazy"), ALL)
    return _make_kernel(sequence([Anchor("\\A"), front, simplify_end(tree)]), _positions)


def _positions(text: pa.Array, scan: Scan) -> pa.Array:
    front = _without_nulls(materialize_array(scan.captures[ALL]))
    counted = pc.if_else(pa.array(scan.pattern >= 0), pc.add(pc.utf8_length(front), 1), 0)
    return _null_like(text, pc.cast(counted, pa.int32()))


def _make_kernel(tree: Node, answer: Callable[[pa.Array, Scan], pa.Array]) -> Kernel:
    """A kernel that scans for a tree; texts for which a fallback engine exceeds its time limit fail."""
    scanner = Scanner([tree])
    too_long = f"a regular expression took more than {scanner.timeout.total_seconds():g} s"

    def run(rows: ActiveRows, texts: Any) -> Any:
        if isinstance(texts, pa.Scalar):
            return run(rows, pa.array([texts.as_py()], pa.string()))[0]
        array = texts.combine_chunks() if isinstance(texts, pa.ChunkedArray) else texts
        scan = scanner.scan(array)
        if scan.timed_out is not None:
            rows.fail(pa.array(scan.timed_out), too_long)
        return answer(array, scan)

    return run


def _null_like(text: pa.Array, values: pa.Array) -> pa.Array:
    """The values, but null where the text is null."""
    return pc.if_else(text.is_valid(), values, pa.scalar(None, values.type)) if text.null_count else values


def _without_nulls(found: pa.Array) -> pa.Array:
    """Replace nulls by empty texts: nulls have no bytes, so only the validity bitmap is removed."""
    return pa.Array.from_buffers(found.type, len(found), [None, *found.buffers()[1:]], offset=found.offset)
