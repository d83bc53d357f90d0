"""Generates code that writes a capture as a view: the same as `etl.columns.views.put_view`, without branches."""

from __future__ import annotations

from typing import Any

from llvmlite import ir

from etl.columns.text_layout import INLINE
from etl.scanner.codegen.code_writer import BLOCK, BLOCK_BYTES, BYTE, LONG, WORD, WORDS, emit_page_check, load, splat, store


def emit_view_writer(module: Any) -> Any:
    """Emit a function ``(view, source, length, offset)`` that writes a text's view; ``source`` is valid if ``length`` > 0."""
    function = _declare_function(module, "put_view", "alwaysinline")
    view, source, length, offset = function.args
    begin, fast, slow = (function.append_basic_block(name) for name in ("begin", "fast", "slow"))
    build = ir.IRBuilder(begin)
    is_not_empty = build.icmp_unsigned("!=", length, WORD(0))
    build.cbranch(build.and_(is_not_empty, emit_page_check(build, source)), fast, slow)
    build.position_at_end(fast)
    _emit_write(build, view, load(build, source, BLOCK), length, offset, _emit_masks(module))
    build.ret_void()
    build.position_at_end(slow)
    build.call(_emit_slow_writer(module), function.args)
    build.ret_void()
    return function


def _declare_function(module: Any, name: str, attribute: str) -> Any:
    """Declare a function internal to the module, with the arguments ``(view, source, length, offset)``."""
    function = ir.Function(module, ir.FunctionType(ir.VoidType(), [LONG, LONG, WORD, WORD]), name)
    function.linkage = "internal"
    function.attributes.add(attribute)
    return function


def _emit_masks(module: Any) -> Any:
    """Emit a table of masks: for each length up to `INLINE`, which of sixteen bytes belong to the text."""
    kind = ir.ArrayType(BLOCK, INLINE + 1)
    masks = ir.GlobalVariable(module, kind, module.get_unique_name("masks"))
    masks.global_constant, masks.linkage = True, "internal"
    masks.initializer = kind([ir.Constant(BLOCK, [255] * n + [0] * (BLOCK_BYTES - n)) for n in range(INLINE + 1)])
    return masks


def _emit_write(build: Any, view: Any, text: Any, length: Any, offset: Any, masks: Any) -> None:
    """Emit the writing of a view from the sixteen bytes at a text's address; bytes after the text are masked out."""
    short = build.icmp_unsigned("<=", length, WORD(INLINE))
    mask_index = build.select(short, length, WORD(INLINE))
    inline = build.and_(text, build.load(build.gep(masks, [WORD(0), mask_index])))
    moved = ir.Constant(ir.VectorType(WORD, BLOCK_BYTES), [16] * 4 + list(range(INLINE)))  # four zeros, then the text
    inside = build.bitcast(build.shuffle_vector(inline, splat(0), moved), WORDS)
    last = build.extract_element(inside, WORD(3))
    second = build.select(short, build.extract_element(inside, WORD(2)), WORD(0))
    for number, value in ((0, length), (2, second), (3, build.select(short, last, offset))):
        inside = build.insert_element(inside, value, WORD(number))
    store(build, inside, view)


def _emit_slow_writer(module: Any) -> Any:
    """Emit the same function for a text near the end of a memory page: it copies the bytes one by one first."""
    function = _declare_function(module, "put_view_near_page_end", "noinline")
    view, source, length, offset = function.args
    begin, loop, done = (function.append_basic_block(name) for name in ("begin", "loop", "done"))
    build = ir.IRBuilder(begin)
    copy = build.alloca(BLOCK)
    build.store(splat(0), copy)
    count = build.select(build.icmp_unsigned("<", length, WORD(BLOCK_BYTES)), length, WORD(BLOCK_BYTES))
    build.cbranch(build.icmp_unsigned("!=", count, WORD(0)), loop, done)
    build.position_at_end(loop)
    at = build.phi(WORD)
    byte = load(build, build.add(source, build.zext(at, LONG)), BYTE)
    build.store(byte, build.gep(build.bitcast(copy, BYTE.as_pointer()), [at]))
    next_at = build.add(at, WORD(1))
    at.add_incoming(WORD(0), begin)
    at.add_incoming(next_at, loop)
    build.cbranch(build.icmp_unsigned("<", next_at, count), loop, done)
    build.position_at_end(done)
    _emit_write(build, view, build.load(copy), length, offset, _emit_masks(module))
    build.ret_void()
    return function
