"""The tables of an automaton → a function in LLVM's language that runs it over texts: a block of code for each state.

Where tables cost a look-up and a comparison a byte, code goes from state to state by jumps that the CPU predicts;
bytes that must follow each other are compared eight at once, bytes that keep a state are passed sixteen at a time, and
each way to match writes its own captures.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from llvmlite import ir

from etl.scanner.machine.graph import Edge, Graph, Move
from etl.scanner.machine.passing import differs, pass_over
from etl.scanner.machine.views import view_writer
from etl.scanner.machine.words import BYTE, LONG, SIXTEEN, WORD, CodeWriter, load, sixteen, store
from etl.scanner.registers import HERE, UNSET
from etl.scanner.tables import Tables

NAME = "scan"
"""The function ``(address, length, texts, base, registers, pattern, views, valid)``: what `etl.scanner.kernel.scan` does.
All are uint64, arrays by their addresses; ``registers`` is room for an int32 each."""

NONE = WORD(0xFFFFFFFF)


def module(tables: Tables) -> str:
    """LLVM's text of a module with the function `NAME`."""
    made = ir.Module("automaton")
    writer = view_writer(made)
    function = ir.Function(made, ir.FunctionType(ir.VoidType(), [LONG] * 8), NAME)
    function.attributes.add("nounwind")
    _Function(function, Graph(tables), writer).write()
    return str(made)


class _Function:
    """Writes a loop over texts, a block for each state that the first one leads to, and one for each final."""

    def __init__(self, function: Any, graph: Graph, put_view: Any) -> None:
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
        """All of it."""
        code = self._code
        self._build.store(LONG(0), self._row)
        rows = code.block("rows")
        code.go(rows)
        self._rows(rows)
        while self._unwritten:
            row = self._unwritten.pop()
            code.at(self._states[row])
            self._state_code(row)
        code.at(self._next)
        self._build.store(self._build.add(self._build.load(self._row), LONG(1)), self._row)
        code.go(rows)

    def _rows(self, rows: Any) -> None:
        """The loop: a text that is not null begins in the first state."""
        code, build = self._code, self._build
        text, run, null, done = map(code.block, ("text", "run", "null", "done"))
        code.at(rows)
        row = build.load(self._row)
        code.choose(build.icmp_unsigned("<", row, self._texts), text, done)
        code.at(text)
        self._text, length = self._of_row(self._address), self._of_row(self._length)
        code.choose(build.icmp_signed("<", length, LONG(0)), null, run)
        code.at(null)
        code.go(self._final(-1))
        code.at(run)
        code.here = self._text
        code.end = build.add(self._text, length)
        code.go(self._state(self._graph.start))
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
        if graph.skips(row):
            code.here = code.end
        if graph.decided(row) or graph.skips(row):
            code.go(self._final(graph.final(row)))
            return
        self._word(row)
        pass_over(code, graph.stays(row))
        inside = code.block("inside")
        here = code.here
        code.choose(code.before_end(here), inside, self._final(graph.final(row)))
        code.at(inside)
        self._byte(row, here)

    def _byte(self, row: int, here: Any) -> None:
        """Where the next byte leads."""
        bytes_of: dict[Edge, list[int]] = {}
        for byte, edge in enumerate(self._graph.edges[row]):
            bytes_of.setdefault(edge, []).append(byte)
        value = self._code.load(here, BYTE)
        most = max(bytes_of, key=lambda edge: len(bytes_of[edge]))
        choice = self._build.switch(value, self._edge(most, here))
        for edge, bytes_ in bytes_of.items():
            way = None if edge is most else self._edge(edge, here)
            for byte in bytes_ if way else ():
                choice.add_case(BYTE(byte), way)

    def _edge(self, edge: Edge, here: Any) -> Any:
        """A block that goes where a byte leads."""
        if edge.target == 0:
            return self._final(-1)
        way = self._code.block("edge")
        with self._build.goto_block(way):
            self._move(edge.moves, here)
            self._code.here = self._build.add(here, LONG(1))
            self._code.go(self._state(edge.target))
        return way

    def _word(self, row: int) -> None:
        """The way past several states when all bytes are there that must be; when not, the states find out what is."""
        word, edges = self._graph.word(row)
        if len(word) < 2:
            return
        code, build = self._code, self._build
        long_enough, equal, slowly = map(code.block, ("enough", "equal", "slowly"))
        here = code.here
        behind = build.add(here, LONG(len(word)))
        code.choose(build.icmp_unsigned("<=", behind, code.end), long_enough, slowly)
        code.at(long_enough)
        code.choose(build.icmp_unsigned("==", differs(code, here, word), LONG(0)), equal, slowly)
        code.at(equal)
        for at, edge in enumerate(edges):
            self._move(edge.moves, build.add(here, LONG(at)))
        code.here = behind
        code.go(self._state(edges[-1].target))
        code.at(slowly)

    def _move(self, moves: Sequence[Move], here: Any) -> None:
        for target, source in moves:
            store(self._build, self._place(source, here), self._register(target))

    def _place(self, source: int, here: Any) -> Any:
        """A place in the text: of a register, or of an address."""
        if source == HERE:
            return self._build.trunc(self._build.sub(here, self._text), WORD)
        return load(self._build, self._register(source), WORD)

    def _register(self, number: int) -> Any:
        return self._build.add(self._registers, LONG(4 * number))

    # ── Finals ──

    def _final(self, number: int) -> Any:
        """The block where a text's answers are written."""
        if number not in self._finals:
            self._finals[number] = self._code.block(f"final{number}")
            with self._build.goto_block(self._finals[number]):
                self._answers(number)
                self._code.go(self._next)
        return self._finals[number]

    def _answers(self, number: int) -> None:
        build, it = self._build, self._graph.tables
        row = build.load(self._row)
        pattern = NONE if number < 0 else WORD(int(it.patterns[number]) & 0xFFFFFFFF)
        store(build, pattern, build.add(self._pattern, build.mul(row, LONG(4))))
        here = self._code.here
        for capture in range(it.places.shape[1] // 2):
            at = build.add(build.mul(self._texts, LONG(capture)), row)
            view = build.add(self._views, build.mul(at, LONG(SIXTEEN)))
            begin, end = (UNSET, UNSET) if number < 0 else it.places[number, 2 * capture : 2 * capture + 2].tolist()
            if begin == UNSET:
                store(build, sixteen(0), view)
                store(build, BYTE(0), build.add(self._valid, at))
            else:
                self._capture(view, build.add(self._valid, at), self._place(begin, here), self._place(end, here))

    def _capture(self, view: Any, valid: Any, begin: Any, end: Any) -> None:
        build = self._build
        source = build.add(self._text, build.zext(begin, LONG))
        size = build.sub(end, begin)
        build.call(self._put_view, [view, source, size, build.trunc(build.sub(source, self._base), WORD)])
        store(build, build.zext(build.icmp_signed("!=", size, WORD(0)), BYTE), valid)
