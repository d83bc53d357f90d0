"""Generates the LLVM function that runs an automaton over texts, with a basic block for each state.

Tables cost a look-up and a comparison a byte; code goes from state to state by jumps that the CPU predicts. Literals are
compared eight bytes at once, self-loops are skipped sixteen bytes at a time, and each final has code for its own captures.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from llvmlite import ir

from etl.scanner.automata.registers import HERE, UNSET
from etl.scanner.automata.transition_tables import TransitionTables
from etl.scanner.codegen.code_writer import BYTE, LONG, VIEW_BYTES, WORD, CodeWriter, load, splat, store
from etl.scanner.codegen.state_graph import Edge, Move, StateGraph
from etl.scanner.codegen.vector_code import emit_difference, emit_skip
from etl.scanner.codegen.view_code import emit_view_writer

NAME = "scan"
"""The function ``(address, length, texts, base, registers, pattern, views, valid)``, which does what `etl.scanner.kernel.scan`
does. All arguments are uint64, arrays by their addresses; ``registers`` has room for an int32 for each register."""

NONE = WORD(0xFFFFFFFF)


def generate_module(tables: TransitionTables) -> str:
    """LLVM IR of a module with the function `NAME`."""
    made = ir.Module("automaton")
    writer = emit_view_writer(made)
    function = ir.Function(made, ir.FunctionType(ir.VoidType(), [LONG] * 8), NAME)
    function.attributes.add("nounwind")
    _Function(function, StateGraph(tables), writer).write()
    return str(made)


class _Function:
    """Writes a loop over texts, a block for each state reachable from the start, and a block for each final."""

    def __init__(self, function: Any, graph: StateGraph, put_view: Any) -> None:
        self._graph, self._put_view = graph, put_view
        self._address, self._length, self._texts, self._base, self._registers, self._pattern, self._views, self._valid = (
            function.args
        )
        self._states: dict[int, Any] = {}
        self._finals: dict[int, Any] = {}
        self._unwritten: list[int] = []
        build = ir.IRBuilder(function.append_basic_block("begin"))
        self._row, here = (build.alloca(LONG, name=name) for name in ("row", "here"))
        self._code = CodeWriter(function, build, here)
        self._build = build
        self._next = self._code.block("next")

    def write(self) -> None:
        """Write the whole function."""
        code = self._code
        self._build.store(LONG(0), self._row)
        rows = code.block("rows")
        code.jump(rows)
        self._rows(rows)
        while self._unwritten:
            row = self._unwritten.pop()
            code.at(self._states[row])
            self._state_code(row)
        code.at(self._next)
        self._build.store(self._build.add(self._build.load(self._row), LONG(1)), self._row)
        code.jump(rows)

    def _rows(self, rows: Any) -> None:
        """The loop over texts; a text that is not null begins in the start state."""
        code, build = self._code, self._build
        text, run, null, done = map(code.block, ("text", "run", "null", "done"))
        code.at(rows)
        row = build.load(self._row)
        code.branch_if(build.icmp_unsigned("<", row, self._texts), text, done)
        code.at(text)
        self._text, length = self._of_row(self._address), self._of_row(self._length)
        code.branch_if(build.icmp_signed("<", length, LONG(0)), null, run)
        code.at(null)
        code.jump(self._final(-1))
        code.at(run)
        code.here = self._text
        code.end = build.add(self._text, length)
        code.jump(self._state(self._graph.start))
        code.at(done)
        build.ret_void()

    def _of_row(self, array: Any) -> Any:
        """The row's element of an array of 8 bytes each."""
        return load(self._build, self._build.add(array, self._build.mul(self._build.load(self._row), LONG(8))), LONG)

    # ── States ──

    def _state(self, row: int) -> Any:
        """The block where a state begins."""
        if row not in self._states:
            self._states[row] = self._code.block(f"state{row}")
            self._unwritten.append(row)
        return self._states[row]

    def _state_code(self, row: int) -> None:
        graph, code = self._graph, self._code
        if graph.ignores_rest(row):
            code.here = code.end
        if graph.decided(row) or graph.ignores_rest(row):
            code.jump(self._final(graph.final(row)))
            return
        self._literal(row)
        emit_skip(code, graph.self_loops(row))
        inside = code.block("inside")
        here = code.here
        code.branch_if(code.before_end(here), inside, self._final(graph.final(row)))
        code.at(inside)
        self._byte(row, here)

    def _byte(self, row: int, here: Any) -> None:
        """The transitions of the next byte, as a switch."""
        bytes_of: dict[Edge, list[int]] = {}
        for byte, edge in enumerate(self._graph.edges[row]):
            bytes_of.setdefault(edge, []).append(byte)
        value = self._code.load(here, BYTE)
        default = max(bytes_of, key=lambda edge: len(bytes_of[edge]))
        choice = self._build.switch(value, self._edge(default, here))
        for edge, bytes_ in bytes_of.items():
            way = None if edge is default else self._edge(edge, here)
            for byte in bytes_ if way else ():
                choice.add_case(BYTE(byte), way)

    def _edge(self, edge: Edge, here: Any) -> Any:
        """The block of a transition."""
        if edge.target == 0:
            return self._final(-1)
        way = self._code.block("edge")
        with self._build.goto_block(way):
            self._move(edge.moves, here)
            self._code.here = self._build.add(here, LONG(1))
            self._code.jump(self._state(edge.target))
        return way

    def _literal(self, row: int) -> None:
        """A shortcut through several states when the literal follows; if it does not, the states' own code runs."""
        word, edges = self._graph.literal(row)
        if len(word) < 2:
            return
        code, build = self._code, self._build
        long_enough, equal, slowly = map(code.block, ("enough", "equal", "slowly"))
        here = code.here
        word_end = build.add(here, LONG(len(word)))
        code.branch_if(build.icmp_unsigned("<=", word_end, code.end), long_enough, slowly)
        code.at(long_enough)
        code.branch_if(build.icmp_unsigned("==", emit_difference(code, here, word), LONG(0)), equal, slowly)
        code.at(equal)
        for at, edge in enumerate(edges):
            self._move(edge.moves, build.add(here, LONG(at)))
        code.here = word_end
        code.jump(self._state(edges[-1].target))
        code.at(slowly)

    def _move(self, moves: Sequence[Move], here: Any) -> None:
        for target, source in moves:
            store(self._build, self._position(source, here), self._register(target))

    def _position(self, source: int, here: Any) -> Any:
        """A position in the text: that of a register, or that of the address ``here``."""
        if source == HERE:
            return self._build.trunc(self._build.sub(here, self._text), WORD)
        return load(self._build, self._register(source), WORD)

    def _register(self, number: int) -> Any:
        return self._build.add(self._registers, LONG(4 * number))

    # ── Finals ──

    def _final(self, number: int) -> Any:
        """The block that writes a text's results."""
        if number not in self._finals:
            self._finals[number] = self._code.block(f"final{number}")
            with self._build.goto_block(self._finals[number]):
                self._answers(number)
                self._code.jump(self._next)
        return self._finals[number]

    def _answers(self, number: int) -> None:
        build, it = self._build, self._graph.tables
        row = build.load(self._row)
        pattern = NONE if number < 0 else WORD(int(it.patterns[number]) & 0xFFFFFFFF)
        store(build, pattern, build.add(self._pattern, build.mul(row, LONG(4))))
        here = self._code.here
        for capture in range(it.capture_registers.shape[1] // 2):
            at = build.add(build.mul(self._texts, LONG(capture)), row)
            view = build.add(self._views, build.mul(at, LONG(VIEW_BYTES)))
            begin, end = (UNSET, UNSET) if number < 0 else it.capture_registers[number, 2 * capture : 2 * capture + 2].tolist()
            if begin == UNSET:
                store(build, splat(0), view)
                store(build, BYTE(0), build.add(self._valid, at))
            else:
                self._capture(view, build.add(self._valid, at), self._position(begin, here), self._position(end, here))

    def _capture(self, view: Any, valid: Any, begin: Any, end: Any) -> None:
        build = self._build
        source = build.add(self._text, build.zext(begin, LONG))
        size = build.sub(end, begin)
        build.call(self._put_view, [view, source, size, build.trunc(build.sub(source, self._base), WORD)])
        store(build, build.zext(build.icmp_signed("!=", size, WORD(0)), BYTE), valid)
