"""The loop that runs an automaton's tables over the texts of a column: one look-up a byte, fewer where bytes can be skipped."""

from __future__ import annotations

from typing import Any

import numpy as np

from etl.scanner.compiled import kernel, part
from etl.scanner.intrinsics import any_of_three, load_byte, trailing_zeros

STATE = np.uint32((1 << 20) - 1)
MOVES = np.uint32(20)
BLOCK = np.uint64(16)


@part
def _find(address: Any, end: Any, first: Any, second: Any, third: Any) -> Any:
    """The address of the first of three bytes at or behind ``address``, or ``end``."""
    while address + BLOCK <= end:
        hits = any_of_three(address, first, second, third)
        if hits != 0:
            return address + np.uint64(trailing_zeros(hits))
        address += BLOCK
    while address < end:
        byte = load_byte(address)
        if byte == first or byte == second or byte == third:  # noqa: SIM109
            return address
        address += np.uint64(1)
    return address


@kernel
def scan(
    address: Any, length: Any, entries: Any, classes: Any, shift: Any, start: Any, kinds: Any, runs: Any, found: Any,
    move_starts: Any, move_to: Any, move_from: Any, finals: Any, patterns: Any, places: Any, registers: Any,
    begins: Any, ends: Any, pattern: Any,
) -> None:  # fmt: skip
    """Texts → of each the pattern that matched (-1 none, -2 not known) and where captures begin and end.

    ``address`` uint64[n] and ``length`` int64[n] (negative: null) are the texts; the arrays of `Tables` follow. Answers go to
    ``pattern`` int32[n], ``begins`` and ``ends`` int32[captures, n]: places in the text, -1 where a capture took no part.
    """
    captures = begins.shape[0]
    remembered = np.empty(registers + 1, np.int32)
    running, finding, skipping, decided = kinds[0], kinds[1], kinds[2], kinds[3]
    wide = np.uint64(shift)
    for n in range(address.shape[0]):
        final = np.int32(-1)
        here = address[n]
        if length[n] >= 0:
            text, end = here, here + np.uint64(length[n])
            state = np.uint32(start)
            while True:
                if state < decided:
                    row = np.uint64(state) >> wide
                    if state < running:
                        if state == 0:
                            break
                        base = row << np.uint64(8)
                        while here < end and runs[base + np.uint64(load_byte(here))] != 0:
                            here += np.uint64(1)
                    elif state < finding:
                        stop = row - (np.uint64(running) >> wide)
                        here = _find(here, end, found[stop, 0], found[stop, 1], found[stop, 2])
                    elif state < skipping:
                        here = end
                    else:
                        final = finals[row]
                        break
                if here >= end:
                    final = finals[np.uint64(state) >> wide]
                    break
                entry = entries[np.uint64(state) + np.uint64(classes[np.uint64(load_byte(here))])]
                if entry > STATE:
                    list_ = np.uint64(entry >> MOVES)
                    move, last = move_starts[list_], move_starts[list_ + np.uint64(1)]
                    while move < last:
                        source = move_from[np.uint64(move)]
                        value = np.int32(here - text) if source < 0 else remembered[np.uint64(source)]
                        remembered[np.uint64(move_to[np.uint64(move)])] = value
                        move += np.int32(1)
                state = entry & STATE
                here += np.uint64(1)
        if final < 0:
            pattern[n] = -1
            for k in range(captures):
                begins[k, n] = -1
                ends[k, n] = -1
        else:
            pattern[n] = patterns[final]
            at = np.int32(here - address[n])
            for k in range(captures):
                source = places[final, 2 * k]
                begins[k, n] = remembered[np.uint64(source)] if source >= 0 else (at if source == -2 else np.int32(-1))
                source = places[final, 2 * k + 1]
                ends[k, n] = remembered[np.uint64(source)] if source >= 0 else (at if source == -2 else np.int32(-1))
