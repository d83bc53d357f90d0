"""The measurement of a command's CPU time and memory by the benchmarks."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

import pytest

from benchmarks import measure

BUSY = "import time; until = time.process_time() + 0.3\nwhile time.process_time() < until: pass"


@pytest.mark.slow
def test_cpu_and_memory_of_a_command_and_its_children(tmp_path: Path) -> None:
    # given
    inner = f"import time; filled = b'x' * 60_000_000; {BUSY}"
    outer = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {inner!r}])"

    # when
    cost, _, _ = measure.run([sys.executable, "-c", outer], tmp_path, every=0.05)

    # then
    assert cost.cpu > 0.3
    assert cost.peak > 60


@pytest.mark.slow
def test_an_earlier_process_is_neither_counted_nor_waited_for(tmp_path: Path) -> None:
    # given: such as the watchdog of a server
    with subprocess.Popen(
        [sys.executable, "-c", f"filled = b'x' * 300_000_000; {BUSY}; input()"], stdin=subprocess.PIPE
    ) as other:
        # when
        began = time.monotonic()
        cost, _, _ = measure.run([sys.executable, "-c", "import time; time.sleep(1)"], tmp_path, every=0.05)

        # then
        assert other.poll() is None
        assert time.monotonic() - began < measure.ORPHAN_SECONDS / 2
        assert cost.cpu < 0.25
        assert cost.peak < 200
        other.communicate(b"\n")
