"""LLVM's language → code of this CPU, and such code in memory."""

from __future__ import annotations

import ctypes
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import llvmlite.binding as llvm
import numpy as np

from etl.scanner.machine.function import NAME, module
from etl.scanner.tables import Tables

if TYPE_CHECKING:
    from etl.columns.texts import Texts
    from etl.scanner.learning import Captured


@dataclass(frozen=True, slots=True)
class Code:
    """An automaton as object code (ELF, Mach-O or COFF, as LLVM writes it for this system)."""

    object: bytes
    cpu: tuple[str, str]
    """Whose code it is: name and features of the CPU."""
    registers: int
    tables: int
    """The fingerprint of the tables that it was made of."""

    @classmethod
    def of(cls, tables: Tables) -> Code:
        """Compile: 0.1 s of CPU for a hundred states, 1 s for five hundred."""
        parsed, target = llvm.parse_assembly(module(tables)), _target()
        passes = llvm.create_pass_builder(target, llvm.create_pipeline_tuning_options(speed_level=1))
        passes.getModulePassManager().run(parsed, passes)
        return cls(target.emit_object(parsed), cpu(), tables.registers, tables.fingerprint)

    def runs_here(self) -> bool:
        """Whether this CPU understands it."""
        return self.cpu == cpu()


def cpu() -> tuple[str, str]:
    """Name and features of this CPU."""
    return llvm.get_host_cpu_name(), llvm.get_host_cpu_features().flatten()


def _target() -> Any:
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    return llvm.Target.from_default_triple().create_target_machine(*cpu(), opt=2)


class Loaded:
    """Code in memory, for as long as this lives."""

    def __init__(self, code: Code) -> None:
        self.tables = code.tables
        self._registers = code.registers
        self._engine = llvm.create_mcjit_compiler(llvm.parse_assembly(""), _target())
        self._engine.add_object_file(llvm.ObjectFileRef.from_data(code.object))
        self._engine.finalize_object()
        kind = ctypes.CFUNCTYPE(None, *[ctypes.c_uint64] * 8)
        self._scan = kind(self._engine.get_function_address(NAME))

    def scan(self, texts: Texts, found: Captured) -> None:
        """What `etl.scanner.kernel.scan` does with the tables; holds no lock."""
        registers = np.empty(self._registers + 1, np.int32)
        arrays = (registers, found.pattern, found.views, found.valid)
        places = [array.ctypes.data for array in arrays]
        self._scan(texts.address.ctypes.data, texts.length.ctypes.data, len(texts.address), texts.base, *places)
