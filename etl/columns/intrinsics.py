"""LLVM intrinsics for kernels: loads, stores, and searches of 16 or 32 bytes at an address.

Addresses are ``uint64``. All bytes of a load or store must be valid memory, even if the caller uses only some of them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from llvmlite import ir
from numba import types
from numba.extending import intrinsic as _intrinsic

intrinsic: Callable[[Callable[..., Any]], Callable[..., Any]] = _intrinsic
"""numba's `intrinsic` without its type hints, which include a context argument that callers do not pass."""

BYTE, HALF, WORD, LONG, BIT = ir.IntType(8), ir.IntType(16), ir.IntType(32), ir.IntType(64), ir.IntType(1)
BLOCK = ir.VectorType(BYTE, 16)
"""Sixteen bytes, which every supported CPU compares at once."""
WIDE = ir.VectorType(BYTE, 32)
"""Thirty-two bytes, which newer CPUs compare at once and others in two steps."""


def _at(builder: Any, address: Any, type_: Any) -> Any:
    return builder.inttoptr(address, type_.as_pointer())


def _load(builder: Any, address: Any, type_: Any) -> Any:
    loaded = builder.load(_at(builder, address, type_))
    loaded.align = 1
    return loaded


def _store(builder: Any, address: Any, value: Any) -> None:
    builder.store(value, _at(builder, address, value.type)).align = 1


def _for_json(builder: Any, block: Any) -> Any:
    """Which bytes of a vector must be escaped in a JSON string."""

    def all_of(byte: int) -> Any:
        return ir.Constant(block.type, [byte] * block.type.count)

    special = builder.icmp_unsigned("<", block, all_of(0x20))
    for byte in b'"\\':
        special = builder.or_(special, builder.icmp_unsigned("==", block, all_of(byte)))
    return special


def _splat(builder: Any, byte: Any) -> Any:
    one = builder.insert_element(ir.Constant(BLOCK, ir.Undefined), byte, ir.Constant(WORD, 0))
    return builder.shuffle_vector(one, ir.Constant(BLOCK, ir.Undefined), ir.Constant(ir.VectorType(WORD, 16), [0] * 16))


def _mask(builder: Any, bits: Any) -> Any:
    """Sixteen booleans → a number whose bit n is the n-th."""
    return builder.zext(builder.bitcast(bits, HALF), WORD)


@intrinsic
def load_byte(context: Any, address: Any) -> Any:
    """uint8 at an address."""
    return types.uint8(types.uint64), lambda ctx, builder, sig, args: _load(builder, args[0], BYTE)


@intrinsic
def load_word(context: Any, address: Any) -> Any:
    """uint32 at an address, aligned or not."""
    return types.uint32(types.uint64), lambda ctx, builder, sig, args: _load(builder, args[0], WORD)


@intrinsic
def load_long(context: Any, address: Any) -> Any:
    """uint64 at an address, aligned or not."""
    return types.uint64(types.uint64), lambda ctx, builder, sig, args: _load(builder, args[0], LONG)


@intrinsic
def prefetch(context: Any, address: Any) -> Any:
    """Prefetch the cache line of an address, which may be invalid."""

    def generate(ctx: Any, builder: Any, sig: Any, args: Any) -> Any:
        pointer = builder.inttoptr(args[0], BYTE.as_pointer())
        how = [ir.Constant(WORD, number) for number in (0, 3, 1)]  # to read, into all caches, data
        type_ = ir.FunctionType(ir.VoidType(), [pointer.type, WORD, WORD, WORD])
        builder.call(builder.module.declare_intrinsic("llvm.prefetch", [pointer.type], type_), [pointer, *how])
        return ctx.get_dummy_value()

    return types.void(types.uint64), generate


def _make_store(type_: Any) -> Any:
    def generate(ctx: Any, builder: Any, sig: Any, args: Any) -> Any:
        _store(builder, args[0], args[1])
        return ctx.get_dummy_value()

    return types.void(types.uint64, type_), generate


@intrinsic
def store_byte(context: Any, address: Any, value: Any) -> Any:
    """Store a uint8 at an address."""
    return _make_store(types.uint8)


@intrinsic
def store_word(context: Any, address: Any, value: Any) -> Any:
    """Store a uint32 at an address."""
    return _make_store(types.uint32)


@intrinsic
def store_long(context: Any, address: Any, value: Any) -> Any:
    """Store a uint64 at an address."""
    return _make_store(types.uint64)


@intrinsic
def copy_block(context: Any, target: Any, source: Any) -> Any:
    """Copy 16 bytes."""

    def generate(ctx: Any, builder: Any, sig: Any, args: Any) -> Any:
        _store(builder, args[0], _load(builder, args[1], BLOCK))
        return ctx.get_dummy_value()

    return types.void(types.uint64, types.uint64), generate


@intrinsic
def copy_block_for_json(context: Any, target: Any, source: Any) -> Any:
    """Copy 16 bytes; bit n of the result is set if byte n must be escaped in a JSON string."""

    def generate(ctx: Any, builder: Any, sig: Any, args: Any) -> Any:
        block = _load(builder, args[1], BLOCK)
        _store(builder, args[0], block)
        return _mask(builder, _for_json(builder, block))

    return types.uint32(types.uint64, types.uint64), generate


@intrinsic
def json_specials(context: Any, address: Any) -> Any:
    """Which of 32 bytes must be escaped in a JSON string, as bits 0 to 31."""

    def generate(ctx: Any, builder: Any, sig: Any, args: Any) -> Any:
        return builder.bitcast(_for_json(builder, _load(builder, args[0], WIDE)), WORD)

    return types.uint32(types.uint64), generate


@intrinsic
def equal_bytes(context: Any, address: Any, byte: Any) -> Any:
    """Which of 16 bytes equal ``byte``, as bits 0 to 15."""

    def generate(ctx: Any, builder: Any, sig: Any, args: Any) -> Any:
        return _mask(builder, builder.icmp_unsigned("==", _load(builder, args[0], BLOCK), _splat(builder, args[1])))

    return types.uint32(types.uint64, types.uint8), generate


@intrinsic
def high_bytes(context: Any, address: Any) -> Any:
    """Which of 16 bytes are not ASCII, as bits 0 to 15."""

    def generate(ctx: Any, builder: Any, sig: Any, args: Any) -> Any:
        block = _load(builder, args[0], BLOCK)
        return _mask(builder, builder.icmp_signed("<", block, ir.Constant(BLOCK, [0] * 16)))

    return types.uint32(types.uint64), generate


@intrinsic
def any_of_three(context: Any, address: Any, first: Any, second: Any, third: Any) -> Any:
    """Which of 16 bytes are one of three, as bits 0 to 15."""

    def generate(ctx: Any, builder: Any, sig: Any, args: Any) -> Any:
        block = _load(builder, args[0], BLOCK)
        found = [builder.icmp_unsigned("==", block, _splat(builder, byte)) for byte in args[1:]]
        return _mask(builder, builder.or_(builder.or_(found[0], found[1]), found[2]))

    return types.uint32(types.uint64, types.uint8, types.uint8, types.uint8), generate


@intrinsic
def multiply_fold(context: Any, one: Any, other: Any) -> Any:
    """Multiply two uint64 to 128 bits, and return the lower half XOR the upper half: each bit depends on all bits of both."""

    def generate(ctx: Any, builder: Any, sig: Any, args: Any) -> Any:
        wide = ir.IntType(128)
        product = builder.mul(*(builder.zext(arg, wide) for arg in args))
        upper = builder.trunc(builder.lshr(product, ir.Constant(wide, 64)), LONG)
        return builder.xor(builder.trunc(product, LONG), upper)

    return types.uint64(types.uint64, types.uint64), generate


@intrinsic
def trailing_zeros(context: Any, bits: Any) -> Any:
    """The number of trailing zero bits of a uint32 that is not 0, as int64."""

    def generate(ctx: Any, builder: Any, sig: Any, args: Any) -> Any:
        return builder.zext(builder.cttz(args[0], ir.Constant(BIT, 1)), LONG)

    return types.int64(types.uint32), generate


@intrinsic
def ones(context: Any, bits: Any) -> Any:
    """The number of one bits of a uint32, as int64."""
    return types.int64(types.uint32), lambda ctx, builder, sig, args: builder.zext(builder.ctpop(args[0]), LONG)
