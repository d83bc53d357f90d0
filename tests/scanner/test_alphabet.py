"""Bytes share a class if no instruction distinguishes them."""

from __future__ import annotations

import pytest
from oracles import tree

from etl.scanner.automata.alphabet import END, Alphabet
from etl.scanner.program import AHEAD, BEHIND, BYTE, compile_program


@pytest.mark.parametrize("pattern", ["", "a", "[a-f]x|.é", r"\b\w+$", r"(?![x\n])(?<=[0-9])\S", "[€-😀]"])
def test_classes(pattern: str) -> None:
    made = compile_program([tree(pattern)], "anywhere")
    alphabet = Alphabet(made)
    masks = {kind: {made.operands[n] for n, does in enumerate(made.opcodes) if does == kind} for kind in (BYTE, AHEAD, BEHIND)}
    signs = [tuple(mask >> byte & 1 for kind in masks.values() for mask in sorted(kind)) for byte in range(256)]

    assert len(set(zip(signs, alphabet.of_byte, strict=True))) == len(set(signs)) == len(set(alphabet.of_byte)) == alphabet.size
    assert alphabet.edge == alphabet.size
    for byte in [*range(256), END]:
        class_ = alphabet.edge if byte == END else alphabet.of_byte[byte]
        assert all(alphabet.members[mask] >> class_ & 1 == mask >> byte & 1 for mask in masks[BYTE])
        assert all(alphabet.satisfied_ahead[class_] >> alphabet.ahead[mask] & 1 == mask >> byte & 1 for mask in masks[AHEAD])
        assert all(alphabet.satisfied_behind[class_] >> alphabet.behind[mask] & 1 == mask >> byte & 1 for mask in masks[BEHIND])


def test_few_classes_for_a_simple_pattern() -> None:
    assert Alphabet(compile_program([tree("[0-9]+")], "beginning")).size == 2
