"""Kernels are compiled once for each kind of step."""

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from etl.catalogue import installed
from etl.columns.cache_folder import kernels
from etl.plan.segments import Branch, Segment, StepNode
from etl.segment import kernel_warmup

pytestmark = pytest.mark.slow

TEXT = pa.schema([("message", pa.string()), ("seen", pa.timestamp("us", tz="UTC"))])


@pytest.fixture(autouse=True)
def marks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Marks of this test's own; kernels are those of the machine."""
    monkeypatch.setattr(kernel_warmup, "compiled_mark", lambda name, *packages: tmp_path / "steps" / name)
    return tmp_path / "steps"


def segment(*steps: Mapping[str, Any]) -> Segment:
    made = [installed().families["step"][str(one["type"])].model_validate(one) for one in steps]
    nodes = tuple(StepNode(f"s{n}", step, TEXT, TEXT) for n, step in enumerate(made))  # type: ignore[arg-type]
    return Segment({"in": Branch((), TEXT, branches=(Branch(nodes, TEXT),))}, {})


def test_steps_are_compiled_once(marks: Path) -> None:
    work = [segment({"type": "json", "fields": {"a": "int"}}, {"type": "filter", "where": "message like 'a%'"})]

    process = kernel_warmup.start_compiling(work)

    assert process is not None
    assert process.wait() == 0
    assert sorted(path.name.partition("-")[0] for path in marks.iterdir()) == ["filter", "json"]
    assert kernel_warmup.start_compiling(work) is None


def test_a_step_with_other_options_is_compiled(marks: Path) -> None:
    marks.mkdir()
    for node in kernel_warmup.step_nodes(segment({"type": "json", "fields": {"a": "int"}})):
        kernel_warmup._marker_file(node).touch()

    process = kernel_warmup.start_compiling([segment({"type": "json", "fields": {"a": "int"}, "rest": "others"})])

    assert process is not None
    assert process.wait() == 0
    assert len(list(marks.iterdir())) == 2


def test_a_step_that_fails_does_not_stop_the_others(marks: Path) -> None:
    process = kernel_warmup.start_compiling(
        [segment({"type": "set", "fields": {"b": "no_such_field"}}, {"type": "url", "field": "message"})]
    )

    assert process is not None
    assert process.wait() == 0
    assert len(list(marks.iterdir())) == 2


_WARM = """
import json
import os
import shutil
import sys
import traceback
from pathlib import Path

import pyarrow as pa
from state.lane import Lane

from etl.api import OFFSET, TIMESTAMP
from etl.columns.cache_folder import kernels
from etl.columns.kernels import KernelCache
from etl.rules.correlation.routes import COUNTED, COUNTS
from etl.segment.kernel_warmup import run_with_state
from etl.steps.keyed.dedupe import Dedupe
from etl.steps.detection.correlate import Correlate
from etl.steps.keyed.over import Over
from etl.steps.sequences.sequence import Sequence
from etl.steps.keyed.suppress import Suppress
from etl.steps.keyed.throttle import Throttle

own, of_the_machine, *names = sys.argv[1:]
own_file = KernelCache._file

def copied_file(self, signature, codegen):
    file = own_file(self, signature, codegen)
    compiled_before = Path(of_the_machine, file.name)
    if compiled_before.exists() and not file.exists():
        file.parent.mkdir(mode=0o700, exist_ok=True)
        shutil.copy(compiled_before, file)
    return file

KernelCache._file = copied_file
MANY = {"type": "event_count", "rules": ["x"], "group-by": ["a"], "timespan": "1m", "condition": {"gte": 2}}
X = {"head": "X", "member": "X", "part": "", "order": 0, "rule": "x"}

def make_step(name):
    incoming = pa.schema({"a": pa.string(), "at": TIMESTAMP})
    if name == "correlate":
        rules = {"rules": [{"name": "x", "where": "a = 'x'"}], "correlations": [{"title": "X", "correlation": MANY}]}
        step = Correlate.model_validate({**rules, "time": "at"}).parts(incoming)[1]
        return step, pa.schema({"at": TIMESTAMP, COUNTS: pa.list_(COUNTED)})
    steps = {"dedupe": lambda: Dedupe(keys=("a",), time="at", within="1m"),
             "throttle": lambda: Throttle(keys=("a",), time="at", limit=1, every="1m"),
             "last": lambda: Dedupe(keys=("a",), time="at", within="1m", keep="last"),
             "suppress": lambda: Suppress(keys=("a",), time="at", within="1m"),
             "over": lambda: Over(keys=("a",), time="at", aggregates={"n": "count(distinct a)", "low": "min(at)"}),
             "sequence": lambda: Sequence.model_validate({"keys": ["a"], "time": "at", "within": "1m",
                                                          "events": {"e": "a = 'a'"}, "pattern": "e{2}", "list": ["a"]})}
    return steps[name](), incoming

def compiled():
    return sorted(path.name.split("-")[0] for path in kernels().iterdir())

def run(name):
    step, incoming = make_step(name)
    for folder in ("cache", "warm", "lane"):
        Path(own, name, folder).mkdir(mode=0o700, parents=True)
    os.environ["SLUICE_CACHE"] = str(Path(own, name, "cache"))
    assert kernels() == Path(own, name, "cache", "kernels")
    run_with_state(step, incoming, Path(own, name, "warm"))
    after_warm_up = compiled()
    lane = Lane(step, incoming, Path(own, name, "lane"))
    for second in range(0, 400, 40):
        counts = {COUNTS: [{**X, "group": "a\x1f"}]} if COUNTS in incoming.names else {}
        lane.run([{"a": key, "at": second * 10**6, OFFSET: n, **counts} for n, key in enumerate("aba")])
    print(json.dumps([name, after_warm_up, compiled()]), flush=True)

for name in names:
    if not (child := os.fork()):
        try:
            run(name)
        except BaseException:
            traceback.print_exc()
        os._exit(0)
    os.waitpid(child, 0)
    for file in Path(own, name, "cache", "kernels").glob("*"):
        if not Path(of_the_machine, file.name).exists():
            write(Path(of_the_machine, file.name), file.read_bytes())
"""

NEEDED = {
    "dedupe": {"choose_first", "find_rows"},
    "throttle": {"drop_later_ones", "find_rows"},
    "last": {"assign_spans"},
    "suppress": {"suppress_repeats", "find_rows"},
    "over": {"find_starts", "find_rows", "find_smallest", "count_distinct"},
    "correlate": {"slide"},
    "sequence": {"find_matches", "list_matched_events"},
}


@pytest.fixture(scope="module")
def compiled_kernels(tmp_path_factory: pytest.TempPathFactory) -> dict[str, tuple[list[str], list[str]]]:
    """Step → the kernels in its folder after the warm-up, and after use.

    Each has a process and a cache folder of its own, but the modules are loaded once. A kernel that the machine's folder has is
    copied from there when it is asked for: to compile the same ones for each step would take 20 s of CPU time.
    """
    own, environment = tmp_path_factory.mktemp("warm"), {**os.environ, "PYTHONPATH": str(Path(__file__).parents[1])}
    command = [sys.executable, "-c", _WARM, str(own), str(kernels()), *NEEDED]
    ran = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)

    assert ran.stderr == ""
    return {name: (warm, used) for name, warm, used in map(json.loads, ran.stdout.splitlines())}


@pytest.mark.parametrize("step", NEEDED)
def test_all_kernels_of_a_step_with_state_are_compiled(
    step: str, compiled_kernels: Mapping[str, tuple[list[str], list[str]]]
) -> None:
    after_warm_up, after_use = compiled_kernels[step]

    assert NEEDED[step] <= set(after_warm_up)
    assert after_use == after_warm_up
