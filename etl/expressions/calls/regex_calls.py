"""Binds calls of regular expression functions."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import pyarrow as pa
import pyarrow.compute as pc

from etl.expressions import bound_node as b
from etl.expressions.bound_node import BoundNode
from etl.expressions.calls.arguments import MisuseError, as_text, no_arrow_form, text_literal, whole_literal
from etl.expressions.patterns import java_regex, searches
from etl.expressions.patterns.java_characters import NoFormError
from etl.expressions.patterns.java_regex import Regex
from etl.expressions.patterns.replacements import re2_pattern, re2_replacement
from etl.expressions.values import longer_texts
from etl.expressions.widening import BOOLEAN, INT32, STRING
from etl.scanner.engine_choice import choose_engine
from etl.scanner.pattern_error import PatternError
from etl.scanner.tree import Anchor, Atomic, Group, LookAround, Node, Repeat, children, walk
from etl.scanner.tree_analysis import first_bytes


def rlike(text: BoundNode, pattern: BoundNode) -> BoundNode:
    """``rlike``."""
    return _bind_search(BOOLEAN, searches.matches, text, pattern, None)


def regexp_extract(text: BoundNode, pattern: BoundNode, group: BoundNode | None = None) -> BoundNode:
    number = 1 if group is None else whole_literal(group)
    if number is None:
        return no_arrow_form("regexp_extract() of a computed group", STRING)
    return _bind_search(STRING, partial(searches.group_text, group=number), text, pattern, number)


def regexp_substr(text: BoundNode, pattern: BoundNode) -> BoundNode:
    return _bind_search(STRING, searches.matched_text, text, pattern, 0)


def regexp_instr(text: BoundNode, pattern: BoundNode) -> BoundNode:
    regex = _regex(pattern, INT32)
    if isinstance(regex, Regex) and first_bytes(regex.tree)[1]:
        return no_arrow_form("regexp_instr() of a pattern that can match nothing", INT32)
    return _bind_search(INT32, searches.match_position, text, pattern, None)


def _bind_search(
    type_: pa.DataType, kernel: Callable[[Node], searches.Kernel], text: BoundNode, pattern: BoundNode, group: int | None
) -> BoundNode:
    regex = _regex(pattern, type_)
    if isinstance(regex, BoundNode):
        return regex
    if group is not None and not 0 <= group <= regex.groups:
        raise MisuseError(f"the pattern has {regex.groups} groups, and group {group} is asked for", "bad-regex")
    if group and not has_perl_semantics(regex.tree, group):
        return no_arrow_form(f"group {group} of {pattern.value!r}, in a part of which Java may leave something,", type_)
    if reason := _beyond(searches.search_tree(regex.tree, group)):
        return b.spark_only(f"{reason} in {pattern.value!r} has no Arrow form", type_)
    return b.apply_failing(type_, kernel(regex.tree), as_text(text))


def _beyond(tree: Node) -> str | None:
    """Why automata cannot run the tree over all texts, or None. The fallback engines do not backtrack as Java does."""
    engine, reason = choose_engine(tree)
    if engine == "scanner" and reason is None:
        return None
    return "'$' before the end" if java_regex.LAST in walk(tree) else reason


def _regex(pattern: BoundNode, type_: pa.DataType) -> Regex | BoundNode:
    text = text_literal(pattern)
    if text is None:
        return no_arrow_form("a computed regular expression", type_)
    try:
        return java_regex.parse(text)
    except NoFormError as error:
        return b.spark_only(f"{error} in {text!r} has no Arrow form", type_)
    except PatternError as error:
        raise MisuseError(f"{text!r} is not a regular expression: {error}", "bad-regex") from error


# ── Groups ────────────────────────────────────────────────────────────────────────────────────────


def has_perl_semantics(node: Node, number: int) -> bool:
    """Whether a group holds the same text as in Perl; always true for group 0.

    Java does not reset a group that matched in a failed attempt, if the group is inside a part that is matched on its own: the
    iteration of a loop, an atomic group, a look-around. It resets only the group of the loop itself, and groups inside an
    option. And if an iteration may be empty, Java ends the loop at an empty one, whatever its count.
    """
    if isinstance(node, Group) and node.number == number:
        return True
    if isinstance(node, Repeat) and node.kind != "possessive":
        return _is_sure_in_repeat(node, number)
    if isinstance(node, Repeat | Atomic | LookAround):
        return not _holds(node.part, number)
    return all(has_perl_semantics(part, number) for part in children(node))


def _is_sure_in_repeat(node: Repeat, number: int) -> bool:
    if isinstance(node.part, Group) and node.part.number == number:
        return not first_bytes(node.part)[1]
    return has_perl_semantics(node.part, number) if (node.minimum, node.maximum) == (0, 1) else not _holds(node.part, number)


def _holds(node: Node, number: int) -> bool:
    return any(isinstance(inner, Group) and inner.number == number for inner in walk(node))


# ── All matches: by RE2, for the scanner finds the first ────────────────────────────────────────────────────


def regexp_count(text: BoundNode, pattern: BoundNode) -> BoundNode:
    searched = _re2(pattern, "regexp_count", INT32)
    if isinstance(searched, BoundNode):
        return searched
    if any(isinstance(node, Anchor) for node in walk(java_regex.parse(pattern.value).tree)):  # Arrow restarts at each match
        return no_arrow_form("regexp_count() with '^' or a boundary", INT32)
    return b.apply(INT32, lambda x: pc.cast(pc.count_substring_regex(x, searched), INT32), as_text(text))


def regexp_replace(text: BoundNode, pattern: BoundNode, new: BoundNode, position: BoundNode | None = None) -> BoundNode:
    searched, given = _re2(pattern, "regexp_replace", STRING), text_literal(new)
    if isinstance(searched, BoundNode):
        return searched
    if given is None or position is not None:
        return no_arrow_form("regexp_replace() with a computed replacement or a position", STRING)
    try:
        rewrite = re2_replacement(given, java_regex.parse(pattern.value).groups)
    except NoFormError as error:
        return no_arrow_form(f"regexp_replace() with {error}", STRING)
    except ValueError as error:
        raise MisuseError(f"replacement {given!r}: {error}", "bad-regex") from error
    if len(rewrite) <= longer_texts.GROWTH:
        return b.apply(STRING, lambda x: pc.replace_substring_regex(x, searched, rewrite), as_text(text))
    return b.apply_failing(STRING, partial(longer_texts.replace_matches, searched, rewrite), as_text(text))


def _re2(pattern: BoundNode, function: str, type_: pa.DataType) -> str | BoundNode:
    regex = _regex(pattern, type_)
    if isinstance(regex, BoundNode):
        return regex
    try:
        return re2_pattern(regex)
    except NoFormError as error:
        return no_arrow_form(f"{function}() with {error}", type_)
