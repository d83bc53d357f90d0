"""LLVM's types, and what all writers of code share: a builder with the place in the text."""

from __future__ import annotations

from typing import Any

from llvmlite import ir

BIT, BYTE, HALF, WORD, LONG = (ir.IntType(bits) for bits in (1, 8, 16, 32, 64))
BLOCK, WORDS = ir.VectorType(BYTE, 16), ir.VectorType(WORD, 4)
PAGE, SIXTEEN = 4096, 16


class CodeWriter:
    """Writes code at the end of a block; ``here`` is the variable that holds the address of the next byte."""

    end: Any
    """The address behind the text, known from where a text begins."""

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
        """A new block, not yet written."""
        return self.function.append_basic_block(name)

    def at(self, block: Any) -> None:
        """Write there from now on."""
        self.build.position_at_end(block)

    def go(self, block: Any) -> None:
        """Jump there."""
        self.build.branch(block)

    def choose(self, truth: Any, then: Any, otherwise: Any) -> None:
        """Jump to one of two."""
        self.build.cbranch(truth, then, otherwise)

    def before_end(self, address: Any) -> Any:
        """Whether an address lies in the text."""
        return self.build.icmp_unsigned("<", address, self.end)

    def load(self, address: Any, kind: Any) -> Any:
        """What lies at an address, aligned or not."""
        return load(self.build, address, kind)


def load(build: Any, address: Any, kind: Any) -> Any:
    """What lies at an address, aligned or not."""
    loaded = build.load(build.inttoptr(address, kind.as_pointer()))
    loaded.align = 1
    return loaded


def store(build: Any, value: Any, address: Any) -> None:
    """Put a value at an address, aligned or not."""
    build.store(value, build.inttoptr(address, value.type.as_pointer())).align = 1


def block_loads_safely(build: Any, address: Any) -> Any:
    """Whether 16 bytes lie in one page of memory (see `etl.columns.views.loads_safely`)."""
    return build.icmp_unsigned("<=", build.and_(address, LONG(PAGE - 1)), LONG(PAGE - SIXTEEN))


def sixteen(byte: int) -> Any:
    """A byte, sixteen times."""
    return ir.Constant(BLOCK, [byte] * SIXTEEN)
