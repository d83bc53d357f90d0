"""Object code of an automaton for this CPU, and such code loaded into memory."""

from __future__ import annotations

import ctypes
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import llvmlite.binding as llvm
import numpy as np

from etl.scanner.automata.transition_tables import TransitionTables
from etl.scanner.codegen.function import NAME, generate_module

if TYPE_CHECKING:
    from etl.columns.texts import Texts
    from etl.scanner.learning import MatchArrays


@dataclass(frozen=True, slots=True)
class ObjectCode:
    """An automaton as object code (ELF, Mach-O or COFF, as LLVM writes it for this system)."""

    object: bytes
    cpu: tuple[str, str]
    """Name and features of the CPU that it is compiled for."""
    registers: int
    tables: int
    """The fingerprint of the tables that it is compiled from."""

    @classmethod
    def of(cls, tables: TransitionTables) -> ObjectCode:
        """Compile tables: 0.1 s of CPU time for a hundred states, 1 s for five hundred."""
        parsed, target = llvm.parse_assembly(generate_module(tables)), _target()
        passes = llvm.create_pass_builder(target, llvm.create_pipeline_tuning_options(speed_level=1))
        passes.getModulePassManager().run(parsed, passes)
        return cls(target.emit_object(parsed), cpu(), tables.registers, tables.fingerprint)

    def runs_here(self) -> bool:
        """Whether it is compiled for this CPU."""
        return self.cpu == cpu()


def cpu() -> tuple[str, str]:
    """Name and features of this CPU."""
    return llvm.get_host_cpu_name(), llvm.get_host_cpu_features().flatten()


def _target() -> Any:
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    return llvm.Target.from_default_triple().create_target_machine(*cpu(), opt=2)


class LoadedCode:
    """Code in memory, as long as this object exists."""

    def __init__(self, code: ObjectCode) -> None:
        self.tables = code.tables
        self._registers = code.registers
        self._engine = llvm.create_mcjit_compiler(llvm.parse_assembly(""), _target())
        self._engine.add_object_file(llvm.ObjectFileRef.from_data(code.object))
        self._engine.finalize_object()
        kind = ctypes.CFUNCTYPE(None, *[ctypes.c_uint64] * 8)
        self._scan = kind(self._engine.get_function_address(NAME))

    def scan(self, texts: Texts, found: MatchArrays) -> None:
        """Does what `etl.scanner.kernel.scan` does with tables; releases the GIL."""
        registers = np.empty(self._registers + 1, np.int32)
        arrays = (registers, found.pattern, found.views, found.valid)
        addresses = [array.ctypes.data for array in arrays]
        self._scan(texts.address.ctypes.data, texts.length.ctypes.data, len(texts.address), texts.base, *addresses)
