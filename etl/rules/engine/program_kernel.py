"""The kernel that evaluates all rules on bit sets, 64 rows at a time, where a rule's witness holds."""

from __future__ import annotations

from typing import Any

import numpy as np

from etl.columns.kernels import kernel, kernel_function

AND, OR = -1, -2
ALWAYS = np.uint64(0xFFFFFFFFFFFFFFFF)


@kernel_function
def _evaluate_word(begin: Any, end: Any, steps: Any, counts: Any, bits: Any, word: Any, stack: Any) -> Any:
    """A condition in 64 rows: ``steps`` are predicates (times two, plus one for not), AND and OR of ``counts`` values."""
    top = 0
    for at in range(begin, end):
        step = steps[at]
        if step >= 0:
            value = bits[step >> 1, word]
            stack[top] = ~value if step & 1 else value
            top += 1
        else:
            value = ALWAYS if step == AND else np.uint64(0)
            for below in range(1, counts[at] + 1):
                value = value & stack[top - below] if step == AND else value | stack[top - below]
            top -= counts[at]
            stack[top] = value
            top += 1
    return stack[0]


@kernel_function
def _witness_rows(word: Any, first: Any, stop: Any, witnesses: Any, touched: Any, bits: Any) -> Any:
    """The rows in which one of some witnesses holds; all rows if none is known."""
    candidates = np.uint64(0)
    for at in range(first, stop):
        predicate = witnesses[at]
        if predicate < 0:
            return ALWAYS
        if touched[predicate] != 0:
            candidates |= bits[predicate, word]
    return candidates


@kernel_function
def _witness_range(begin: Any, end: Any, witnesses: Any, touched: Any) -> Any:
    """The range of a rule's witnesses that hold somewhere, or of -1: often only one of many holds."""
    first, stop = end, end
    for at in range(begin, end):
        if witnesses[at] < 0 or touched[witnesses[at]] != 0:
            first, stop = min(first, at), at + 1
    return first, stop


@kernel_function
def ones_of(word: Any) -> Any:
    """The number of bits set: summed in pairs, fours, eights, then all eights by one product."""
    word -= (word >> np.uint64(1)) & np.uint64(0x5555555555555555)
    word = (word & np.uint64(0x3333333333333333)) + ((word >> np.uint64(2)) & np.uint64(0x3333333333333333))
    word = (word + (word >> np.uint64(4))) & np.uint64(0x0F0F0F0F0F0F0F0F)
    return np.int64((word * np.uint64(0x0101010101010101)) >> np.uint64(56))


@kernel
def evaluate(
    bits: Any, touched: Any, rows: Any, witness_first: Any, witnesses: Any, first: Any, steps: Any, counts: Any,
    stack: Any, truth: Any, tried: Any,
) -> Any:  # fmt: skip
    """``truth`` uint64[rules, words], all 0, gets the rows in which each rule matches. Returns the number of matches.

    ``tried`` int64[rules], all 0, gets the number of rows in which each rule was evaluated. ``touched`` int64[predicates] is 0
    for a predicate that holds nowhere; ``stack`` uint64[deepest condition] is working memory.
    """
    found = 0
    words = truth.shape[1]
    last = ALWAYS if rows & 63 == 0 else (np.uint64(1) << np.uint64(rows & 63)) - np.uint64(1)
    for rule in range(truth.shape[0]):
        first_found, stop = _witness_range(witness_first[rule], witness_first[rule + 1], witnesses, touched)
        if first_found == stop:
            continue
        for word in range(words):
            candidates = _witness_rows(word, first_found, stop, witnesses, touched, bits)
            if candidates == 0:
                continue
            if word == words - 1:
                candidates &= last
            tried[rule] += ones_of(candidates)
            value = candidates & _evaluate_word(first[rule], first[rule + 1], steps, counts, bits, word, stack)
            truth[rule, word] = value
            while value != 0:
                value &= value - np.uint64(1)
                found += 1
    return found


@kernel
def list_by_row(truth: Any, offsets: Any, rule: Any) -> None:
    """List the rules of each row, in order: row r has ``rule[offsets[r]:offsets[r + 1]]``.

    ``offsets`` int32[rows + 2] is all 0; its first rows + 1 values are the result.
    """
    for pass_ in range(2):
        for n in range(truth.shape[0]):
            for word in range(truth.shape[1]):
                value = truth[n, word]
                index = 0
                while value != 0:
                    while value & np.uint64(1) == 0:
                        value >>= np.uint64(1)
                        index += 1
                    row = 64 * word + index
                    if pass_ == 0:
                        offsets[row + 2] += 1
                    else:
                        rule[offsets[row + 1]] = n
                        offsets[row + 1] += 1
                    value >>= np.uint64(1)
                    index += 1
        if pass_ == 0:
            for row in range(2, offsets.shape[0]):
                offsets[row] += offsets[row - 1]


@kernel
def put_bits(mask: Any, bits: Any) -> Any:
    """Set one predicate's bits by booleans (bool[rows]). Returns how many are true."""
    count = 0
    for row in range(mask.shape[0]):
        if mask[row]:
            bits[row >> 6] |= np.uint64(1) << np.uint64(row & 63)
            count += 1
    return count
