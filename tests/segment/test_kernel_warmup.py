"""Kernels are compiled once for each kind of step."""

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
from etl.columns.disk_cache import write
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
import os
import shutil
import sys
import tempfile
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

own_file = KernelCache._file

def copied_file(self, signature, codegen):
    file = own_file(self, signature, codegen)
    compiled_before = Path(os.environ["MACHINE_KERNELS"], file.name)
    if compiled_before.exists() and not file.exists():
        file.parent.mkdir(mode=0o700, exist_ok=True)
        shutil.copy(compiled_before, file)
    return file

KernelCache._file = copied_file
MANY = {"type": "event_count", "rules": ["x"], "group-by": ["a"], "timespan": "1m", "condition": {"gte": 2}}
X = {"head": "X", "member": "X", "part": "", "order": 0, "rule": "x"}
step = {"dedupe": Dedupe(keys=("a",), time="at", within="1m"), "throttle": Throttle(keys=("a",), time="at", limit=1, every="1m"),
        "last": Dedupe(keys=("a",), time="at", within="1m", keep="last"),
        "suppress": Suppress(keys=("a",), time="at", within="1m"),
        "over": Over(keys=("a",), time="at", aggregates={"n": "count(distinct a)", "low": "min(at)"}),
        "sequence": Sequence.model_validate({"keys": ["a"], "time": "at", "within": "1m", "events": {"e": "a = 'a'"},
                                             "pattern": "e{2}", "list": ["a"]})}.get(sys.argv[1])
incoming = pa.schema({"a": pa.string(), "at": TIMESTAMP})
if sys.argv[1] == "correlate":
    rules = {"rules": [{"name": "x", "where": "a = 'x'"}], "correlations": [{"title": "X", "correlation": MANY}]}
    step = Correlate.model_validate({**rules, "time": "at"}).parts(incoming)[1]
    incoming = pa.schema({"at": TIMESTAMP, COUNTS: pa.list_(COUNTED)})
run_with_state(step, incoming, Path(tempfile.mkdtemp()))
print(*sorted(path.name.split("-")[0] for path in kernels().iterdir()))
lane = Lane(step, incoming, Path(tempfile.mkdtemp()))
for second in range(0, 400, 40):
    counts = {COUNTS: [{**X, "group": "a\x1f"}]} if COUNTS in incoming.names else {}
    lane.run([{"a": name, "at": second * 10**6, OFFSET: n, **counts} for n, name in enumerate("aba")])
print(*sorted(path.name.split("-")[0] for path in kernels().iterdir()))
"""


@pytest.mark.parametrize(
    ("step", "needed"),
    [
        ("dedupe", {"choose_first", "find_rows"}),
        ("throttle", {"drop_later_ones", "find_rows"}),
        ("last", {"assign_spans"}),
        ("suppress", {"suppress_repeats", "find_rows"}),
        ("over", {"find_starts", "find_rows", "find_smallest", "count_distinct"}),
        ("correlate", {"slide"}),
        ("sequence", {"find_matches", "list_taken"}),
    ],
)
def test_all_kernels_of_a_step_with_state_are_compiled(step: str, needed: set[str], tmp_path: Path) -> None:
    """Each has a cache folder of its own. A kernel that the machine's folder has is copied from there when it is asked for: to
    compile the same ones for each step would take 20 s of CPU time."""
    own = {"SLUICE_CACHE": str(tmp_path), "MACHINE_KERNELS": str(kernels())}
    environment = {**os.environ, **own, "PYTHONPATH": str(Path(__file__).parents[1])}

    ran = subprocess.run([sys.executable, "-c", _WARM, step], env=environment, capture_output=True, text=True, check=False)

    assert ran.returncode == 0, ran.stderr
    compiled, after_use = ran.stdout.splitlines()
    assert needed <= set(compiled.split())
    assert after_use == compiled
    for file in (tmp_path / "kernels").iterdir():
        if not (kernels() / file.name).exists():
            write(kernels() / file.name, file.read_bytes())
