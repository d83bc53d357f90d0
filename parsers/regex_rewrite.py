"""Trees rewritten so that RE2 can run them, where the meaning stays exactly the same.

Look-around of one character and atomic groups are dropped where what stands beside them makes them true anyway;
at the outer ends of a pattern a look-around becomes a character that is read and not captured. Word edges
between known characters vanish. What is left for the package ``regex`` is told by `backtracking_reason`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import combinations

from parsers.char_class import ANY, WORD, CharClass, one_of
from parsers.regex_tree import (
    EMPTY,
    Atomic,
    Backreference,
    Capture,
    Chars,
    Choice,
    Edge,
    Group,
    Look,
    Node,
    Repeat,
    Sequence,
    captures,
    sequence,
    walk,
)

_NONE = CharClass(0)


@dataclass(frozen=True, slots=True)
class Side:
    """What may stand beside a place: a character of ``chars``, or the text's edge.

    ``free``: nothing that follows can make a match fail.
    """

    chars: CharClass
    edge: bool
    free: bool = False


OUTSIDE = Side(ANY, edge=True, free=True)


BEGINNING = Side(_NONE, edge=True)
"""What stands before the text's first character."""

NEVER = Chars(_NONE)
"""Matches nothing."""

MOST_BEFORE = 4
"""Kinds of characters before the match that a search tells apart."""


def at_beginning(node: Node) -> Node:
    """The tree for a match at the text's first character."""
    return _ends_read(_lifted(_rewrite(_lifted(node), BEGINNING, OUTSIDE)))


def searched(node: Node) -> list[Node]:
    """Trees for a match anywhere, one of which finds it; all have the captures of ``node``.

    Where look-behind asks for the character before the match, that character is read first: every match then
    begins one character earlier, so the leftmost stays the leftmost. One tree for each kind of that character.
    """
    plain = _ends_read(_lifted(_rewrite(_lifted(node), Side(ANY, edge=True), OUTSIDE)))
    asked = _asked_behind(plain)
    kinds = _kinds(asked) if asked else []
    if not kinds or len(kinds) > MOST_BEFORE:
        return [plain]
    trees = []
    for kind in kinds:
        edge = not any(kind.meets(of) for of in asked)
        body = _ends_read(_lifted(_rewrite(_lifted(node), Side(kind, edge=edge), OUTSIDE)))
        trees.append(sequence([Choice((Edge("\\A"), Chars(kind))) if edge else Chars(kind), body]))
    trees.sort(key=_begins_with_character)
    return [plain] if any(map(backtracking_reason, trees)) else trees


def _begins_with_character(tree: Node) -> bool:
    return isinstance(tree, Sequence) and isinstance(tree.parts[0], Chars)


def _asked_behind(node: Node) -> list[CharClass]:
    """The classes that look-behinds of the tree ask for; empty when one asks for more than a character."""
    looks = [found for found in walk(node) if isinstance(found, Look) and not found.ahead]
    asked = [_single(look.part) for look in looks]
    return list({of: None for of in asked if of is not None}) if None not in asked else []


def _kinds(asked: list[CharClass]) -> list[CharClass]:
    kinds = [ANY]
    try:
        for of in asked:
            kinds = [part for kind in kinds for part in (kind.without(of), kind.intersection(of)) if not part.empty]
    except ValueError:
        return []
    return kinds


def backtracking_reason(node: Node) -> str | None:
    """Why RE2 cannot run the tree, or None."""
    for found in walk(node):
        if isinstance(found, Look):
            return f"look-{'ahead' if found.ahead else 'behind'}"
        if isinstance(found, Backreference):
            return "back-reference"
        if isinstance(found, Atomic) or (isinstance(found, Repeat) and found.kind == "possessive"):
            return "atomic group or possessive repeat"
    return None


def can_be_empty(node: Node) -> bool:
    """Whether it can match the empty text."""
    if isinstance(node, Chars):
        return False
    if isinstance(node, Sequence):
        return all(can_be_empty(part) for part in node.parts)
    if isinstance(node, Choice):
        return any(can_be_empty(part) for part in node.parts)
    if isinstance(node, Repeat):
        return node.least == 0 or can_be_empty(node.part)
    if isinstance(node, Capture | Group | Atomic):
        return can_be_empty(node.part)
    return True


def decided_by_next(node: Node, after: Side = Side(_NONE, edge=True)) -> bool:
    """Whether at every place the next character alone says how to go on: then RE2 runs the tree in one pass."""
    if isinstance(node, Capture | Group):
        return decided_by_next(node.part, after)
    if isinstance(node, Sequence):
        for part in reversed(node.parts):
            if not decided_by_next(part, after):
                return False
            after = next_to(part, after, forward=True)
        return True
    if isinstance(node, Choice):
        firsts = [next_to(part, after, forward=True).chars for part in node.parts]
        apart = not any(one.meets(other) for one, other in combinations(firsts, 2))
        return apart and all(decided_by_next(part, after) for part in node.parts)
    if isinstance(node, Repeat):
        turn = next_to(node.part, Side(_NONE, edge=False), forward=True)
        apart = not turn.chars.meets(after.chars)
        return apart and not can_be_empty(node.part) and decided_by_next(node.part, _either([turn, after], free=False))
    return True


def next_to(node: Node, beyond: Side, *, forward: bool) -> Side:
    """What the first (or last) character of ``node`` may be, seen from outside; ``beyond`` shows where it is empty."""
    if isinstance(node, Chars):
        return Side(node.of, edge=False)
    if isinstance(node, Sequence):
        for part in reversed(node.parts) if forward else node.parts:
            beyond = next_to(part, beyond, forward=forward)
        return beyond
    if isinstance(node, Choice):
        return _either([next_to(part, beyond, forward=forward) for part in node.parts])
    if isinstance(node, Repeat):
        inner = next_to(node.part, beyond, forward=forward)
        return _either([inner, beyond], free=beyond.free) if node.least == 0 else inner
    if isinstance(node, Capture | Group | Atomic):
        return next_to(node.part, beyond, forward=forward)
    return replace(_at_edge(node, beyond, forward=forward), free=False)


def after_turn(node: Repeat, after: Side) -> Side:
    """What may follow one turn of a repeat."""
    if node.most == 1:
        return after
    return _either([next_to(node.part, after, forward=True), after], free=False)


def _at_edge(node: Node, beyond: Side, *, forward: bool) -> Side:
    if not isinstance(node, Edge):
        return beyond
    outer = {"\\A": not forward, "\\z": forward}.get(node.kind)
    if outer:
        return Side(_NONE, edge=True)
    if node.kind == ("$" if forward else "^"):
        return Side(one_of("\n"), beyond.edge) if not beyond.chars.empty else beyond
    return beyond


def _either(sides: list[Side], *, free: bool | None = None) -> Side:
    chars = sides[0].chars
    for side in sides[1:]:
        try:
            chars = chars.union(side.chars)
        except ValueError:
            chars = ANY
    return Side(chars, any(side.edge for side in sides), all(side.free for side in sides) if free is None else free)


# ── Walking with both sides in view ───────────────────────────────────────────────────────────────


def _rewrite(node: Node, before: Side, after: Side) -> Node:
    if isinstance(node, Sequence):
        return _rewrite_sequence(node.parts, before, after)
    if isinstance(node, Choice):
        return Choice(tuple(_rewrite(part, before, after) for part in node.parts))
    if isinstance(node, Repeat):
        return _rewrite_repeat(node, before, after)
    if isinstance(node, Capture | Group):
        return replace(node, part=_rewrite(node.part, before, after))
    if isinstance(node, Atomic):
        return _rewrite_atomic(node, before, after)
    if isinstance(node, Look):
        return _rewrite_look(node, before, after)
    if isinstance(node, Edge):
        return EMPTY if _edge_is_true(node, before, after) else node
    return node


def _rewrite_sequence(parts: tuple[Node, ...], before: Side, after: Side) -> Node:
    follows = [after]
    for part in reversed(parts):
        follows.append(next_to(part, follows[-1], forward=True))
    follows.reverse()
    done: list[Node] = []
    for n, part in enumerate(parts):
        done.append(_rewrite(part, before, follows[n + 1]))
        before = next_to(part, before, forward=False)
    return _narrowed(_rest_read(sequence(done), after))


def _rest_read(node: Node, after: Side) -> Node:
    """``(?![a]).*`` at the end → ``(?:[^a].*|\\z)``: the rest, if it does not begin so."""
    if not after.free or not isinstance(node, Sequence) or len(node.parts) < 2:
        return node
    look, rest = node.parts[-2:]
    refused = _single(look.part) if isinstance(look, Look) and look.ahead and look.negative else None
    all_of_it = Repeat(Chars(ANY), 0, None)
    read = Choice((sequence([Chars(refused.inverted()), all_of_it]), Edge("\\z"))) if refused is not None else None
    if read is not None and rest == all_of_it:
        return sequence([*node.parts[:-2], read])
    if read is not None and isinstance(rest, Capture) and rest.part == all_of_it:
        return sequence([*node.parts[:-2], replace(rest, part=read)])
    return node


def _narrowed(node: Node) -> Node:
    """``(?![a])[a-z]`` → ``[b-z]``: a negative look-ahead of one character in front of one character."""
    if not isinstance(node, Sequence):
        return node
    parts: list[Node] = list(node.parts)
    for n in range(len(parts) - 1, 0, -1):
        look, chars = parts[n - 1], parts[n]
        refused = _single(look.part) if isinstance(look, Look) and look.ahead and look.negative else None
        if refused is not None and isinstance(chars, Chars):
            try:
                parts[n - 1 : n + 1] = [Chars(chars.of.without(refused))]
            except ValueError:
                continue
    return sequence(parts)


def _rewrite_repeat(node: Repeat, before: Side, after: Side) -> Node:
    if node.most == 0 and not captures(node):
        return EMPTY
    inside = node.most is None or node.most > 1
    entry = _either([next_to(node.part, before, forward=False), before]) if inside else before
    leave = _either([next_to(node.part, after, forward=True), after], free=False if inside else after.free) if inside else after
    part = _rewrite(node.part, entry, leave)
    greedy = Repeat(part, node.least, node.most)
    if node.kind == "possessive" and _settled(greedy, after):
        return greedy
    return Repeat(part, node.least, node.most, node.kind)


def _rewrite_atomic(node: Atomic, before: Side, after: Side) -> Node:
    part = _rewrite(node.part, before, after)
    return part if _settled(part, after) else Atomic(part)


def _settled(node: Node, after: Side) -> bool:
    """Whether, once it matched in the way it prefers, no other way of matching it can help what follows."""
    if after.free or isinstance(node, Chars | Edge | Look | Atomic):
        return True
    if isinstance(node, Capture | Group):
        return _settled(node.part, after)
    if isinstance(node, Sequence):
        for part in reversed(node.parts):
            if not _settled(part, after):
                return False
            after = next_to(part, after, forward=True)
        return True
    if isinstance(node, Choice):
        return _apart(node) and all(_settled(part, after) for part in node.parts)
    return isinstance(node, Repeat) and _settled_repeat(node, after)


def _settled_repeat(node: Repeat, after: Side) -> bool:
    """Giving back a turn helps only where what follows can begin like a turn."""
    if node.kind == "lazy" or can_be_empty(node.part):
        return False
    if node.kind == "possessive":
        return True
    turn = next_to(node.part, Side(_NONE, edge=False), forward=True)
    return not after.chars.meets(turn.chars) and _settled(node.part, _either([turn, after], free=False))


def _apart(node: Choice) -> bool:
    """Whether the next character alone decides between the branches."""
    if any(can_be_empty(part) for part in node.parts):
        return False
    firsts = [next_to(part, Side(_NONE, edge=False), forward=True).chars for part in node.parts]
    return not any(one.meets(other) for one, other in combinations(firsts, 2))


def _single(node: Node) -> CharClass | None:
    """The class when the node is one character of a class."""
    while isinstance(node, Group | Capture | Atomic):
        node = node.part
    if isinstance(node, Choice):
        classes = [_single(part) for part in node.parts]
        if any(found is None for found in classes):
            return None
        return _either([Side(found, edge=False) for found in classes if found is not None]).chars
    return node.of if isinstance(node, Chars) else None


def _rewrite_look(look: Look, before: Side, after: Side) -> Node:
    if captures(look.part):
        return look
    if _look_is_true(look, before, after):
        return EMPTY
    single = _single(look.part)
    if look.negative and not look.ahead and single is not None and not before.edge:
        return look if before.chars.empty or before.chars.meets(single.inverted()) else NEVER
    return look


def _look_is_true(look: Look, before: Side, after: Side) -> bool:
    side = after if look.ahead else before
    if not look.negative:
        return can_be_empty(look.part) and isinstance(look.part, Repeat)
    if isinstance(look.part, Choice):
        return all(_look_is_true(replace(look, part=part), before, after) for part in look.part.parts)
    nearest = next_to(look.part, Side(_NONE, edge=True), forward=look.ahead)
    return not nearest.edge and not side.chars.meets(nearest.chars)


def _edge_is_true(edge: Edge, before: Side, after: Side) -> bool:
    if edge.kind == "\\b":
        return (_all_word(before) and _no_word(after)) or (_no_word(before) and _all_word(after))
    return edge.kind == "$" and after.chars.empty


def _all_word(side: Side) -> bool:
    return not side.edge and not side.chars.empty and not side.chars.meets(WORD.inverted())


def _no_word(side: Side) -> bool:
    return not side.chars.meets(WORD)


# ── The outer ends ────────────────────────────────────────────────────────────────────────────────


def _lifted(node: Node) -> Node:
    """Look-around at the ends of groups and captures moved outside of them."""
    if isinstance(node, Sequence):
        return sequence([_lifted(part) for part in node.parts])
    if isinstance(node, Choice):
        return Choice(tuple(_lifted(part) for part in node.parts))
    if not isinstance(node, Capture | Group):
        return node
    part = _lifted(node.part)
    parts = _parts(part)
    first = 0
    while first < len(parts) and isinstance(parts[first], Look):
        first += 1
    last = len(parts)
    while last > first and isinstance(parts[last - 1], Look):
        last -= 1
    return sequence([*parts[:first], replace(node, part=sequence(parts[first:last])), *parts[last:]])


def spread_at_end(node: Node) -> Node:
    """A capture that ends the pattern and holds a choice with a look-ahead → a choice of captures.

    ``(?<x>a|b(?!c))`` → ``(?<x>a)|(?<x>b)(?!c)``: what the look-ahead reads is then outside of the capture.
    """
    if isinstance(node, Sequence) and node.parts:
        return sequence([*node.parts[:-1], spread_at_end(node.parts[-1])])
    if isinstance(node, Choice):
        return Choice(tuple(spread_at_end(part) for part in node.parts))
    if not isinstance(node, Capture | Group) or not _looks_ahead_at_end(node):
        return node
    if isinstance(node.part, Choice):
        return Choice(tuple(spread_at_end(replace(node, part=part)) for part in node.part.parts))
    parts = _parts(node.part)
    last = parts[-1] if parts else EMPTY
    if isinstance(last, Choice) and all(isinstance(part, Chars | Edge | Look) for part in parts[:-1]):
        return Choice(tuple([spread_at_end(replace(node, part=sequence([*parts[:-1], part]))) for part in last.parts]))
    return node


def _parts(node: Node) -> list[Node]:
    return list(node.parts) if isinstance(node, Sequence) else [node]


def _looks_ahead_at_end(node: Node) -> bool:
    if isinstance(node, Sequence):
        return bool(node.parts) and _looks_ahead_at_end(node.parts[-1])
    if isinstance(node, Choice):
        return any(map(_looks_ahead_at_end, node.parts))
    if isinstance(node, Capture | Group):
        return _looks_ahead_at_end(node.part)
    return isinstance(node, Look) and node.ahead


def _ends_read(node: Node) -> Node:
    """A look-around at the pattern's own ends becomes text that is read: nothing else can want that text."""
    parts = _parts(node)
    first = parts[0] if parts else EMPTY
    if isinstance(first, Look) and not first.ahead and (read := _read(first, Edge("\\A"))):
        parts = [read, *parts[1:]]
    return _end_read(sequence(parts))


def _end_read(node: Node) -> Node:
    if isinstance(node, Sequence) and node.parts:
        return sequence([*node.parts[:-1], _end_read(node.parts[-1])])
    if isinstance(node, Choice):
        return Choice(tuple(_end_read(part) for part in node.parts))
    if isinstance(node, Look) and node.ahead:
        return _read(node, Edge("\\z")) or node
    return node


def _read(look: Look, edge: Edge) -> Node | None:
    if backtracking_reason(look.part):
        return None
    single = _single(look.part)
    if look.negative:
        return Choice((edge, Chars(single.inverted()))) if single is not None else None
    return look.part if look.ahead or single is not None else None
