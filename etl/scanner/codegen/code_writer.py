"""What all code generators share: LLVM's types, and the IR builder with the current position in the text."""

from __future__ import annotations

from typing import Any

from llvmlite import ir

BIT, BYTE, HALF, WORD, LONG = (ir.IntType(bits) for bits in (1, 8, 16, 32, 64))
"""Integers of 1, 8, 16, 32 and 64 bits."""

BLOCK, WORDS = ir.VectorType(BYTE, 16), ir.VectorType(WORD, 4)
"""Vectors of 128 bits: 16 bytes, or 4 words."""
PAGE, BLOCK_BYTES = 4096, 16
"""Bytes of a page of memory, and of a `BLOCK`, which one vector instruction processes."""

VIEW_BYTES = 16
"""Bytes of a string view."""


class CodeWriter:
    """Writes code at the end of a basic block; ``here`` is a variable with the address of the next byte."""

    end: Any
    """The address after the text; set where a text begins."""

    def __init__(self, function: Any, build: Any, here: Any) -> None:
        self.function, self.build, self._here = function, build, here

    @property
    def here(self) -> Any:
        """The address of the next byte."""
        return self.build.load(self._here)

    @here.setter
    def here(self, address: Any) -> None:
        self.build.store(address, self._here)

    def block(self, name: str) -> Any:
        """A new, empty block."""
        return self.function.append_basic_block(name)

    def at(self, block: Any) -> None:
        """Write at the end of this block from now on."""
        self.build.position_at_end(block)

    def jump(self, block: Any) -> None:
        """Jump to a block."""
        self.build.branch(block)

    def branch_if(self, truth: Any, then: Any, otherwise: Any) -> None:
        """Jump to one of two blocks."""
        self.build.cbranch(truth, then, otherwise)

    def before_end(self, address: Any) -> Any:
        """Whether an address is before the text's end."""
        return self.build.icmp_unsigned("<", address, self.end)

    def load(self, address: Any, kind: Any) -> Any:
        """The value at an address, aligned or not."""
        return load(self.build, address, kind)


def load(build: Any, address: Any, kind: Any) -> Any:
    """The value at an address, aligned or not."""
    loaded = build.load(build.inttoptr(address, kind.as_pointer()))
    loaded.align = 1
    return loaded


def store(build: Any, value: Any, address: Any) -> None:
    """Store a value at an address, aligned or not."""
    build.store(value, build.inttoptr(address, value.type.as_pointer())).align = 1


def emit_page_check(build: Any, address: Any) -> Any:
    """Whether the 16 bytes at an address are in one page of memory (see `etl.columns.byte_runs.loads_safely`)."""
    return build.icmp_unsigned("<=", build.and_(address, LONG(PAGE - 1)), LONG(PAGE - BLOCK_BYTES))


def splat(byte: int) -> Any:
    """A vector of sixteen times the same byte."""
    return ir.Constant(BLOCK, [byte] * BLOCK_BYTES)
