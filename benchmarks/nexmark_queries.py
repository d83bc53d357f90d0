"""Nexmark here: ``python -m benchmarks.nexmark_queries DATA OUTPUT WARM EVENTS QUERY…`` prints the cost of each query."""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from tempfile import mkdtemp

import psutil  # type: ignore[import-untyped]

from etl.config.loader import load
from etl.contract.errors import EtlError
from etl.running.planning import RunRequest
from etl.running.service import RunService
from etl.running.shared_session import SharedSession

COUNT_CHAR = '''"""The user function of q14."""

import pyarrow as pa
import pyarrow.compute as pc


def count_char(text: pa.StringArray, char: pa.StringArray) -> pa.Int64Array:
    """How many characters of a text equal the one given; 0 for null."""
    return pc.fill_null(pc.count_substring(text, char[0].as_py()), 0).cast(pa.int64())
'''


def cpu() -> float:
    """CPU seconds of this process and its descendants, those that have ended included."""
    me = psutil.Process()
    total = 0.0
    for process in (me, *me.children(recursive=True)):
        try:
            total += sum(process.cpu_times()[:4])
        except psutil.Error:  # it ended meanwhile
            continue
    return total


def script(data: Path, query: str, events: Path, output: Path) -> str:
    """A query with all it needs, as it stands but for the places of files."""
    folder = data / "queries"
    names = ("ddl_source", "ddl_views", query)
    text = "".join((folder / f"{name}.sql").read_text("utf-8") + ";\n" for name in names)
    text = text.replace("${EVENTS}", str(events / "all.jsonl")).replace("${NEXMARK_TABLE}", "datagen")
    text = text.replace("file://${FLINK_HOME}/data/side_input.txt", str(data / "side_input.txt"))
    text = text.replace("file://${NEXMARK_DIR}/data/output/${SUBMIT_TIME}", f"{output}/{query}")
    return text.replace("AS 'com.github.nexmark.flink.udf.CountChar'", "AS 'count_char:count_char' LANGUAGE PYTHON")


def run(session: SharedSession, data: Path, query: str, events: Path, output: Path) -> tuple[float, float]:
    """Seconds and CPU seconds of a query over all events. Raises EtlError."""
    folder = Path(mkdtemp(prefix=f"{query}-", dir=output))
    (folder / "count_char.py").write_text(COUNT_CHAR, "utf-8")
    path = folder / f"{query}.sql"
    path.write_text(script(data, query, events, folder), "utf-8")
    pipeline = load(path, {})
    session.started()
    request = RunRequest(once=True, drain=True, state=str(folder / "state"), master=session.master)
    service = RunService([pipeline], request, shared=session)
    began, used = time.monotonic(), cpu()
    service.work(lambda message: None)
    return time.monotonic() - began, cpu() - used


def main() -> None:
    """All queries, one after the other, in one session."""
    data, output, warm, events = (Path(word) for word in sys.argv[1:5])
    session = SharedSession("nexmark", "local[2]", output / "spark.log")
    for query in sys.argv[5:]:
        try:
            run(session, data, query, warm, output)
            seconds, used = run(session, data, query, events, output)
            print(json.dumps({"query": query, "seconds": seconds, "cpu": used}), flush=True)
        except EtlError as error:
            print(json.dumps({"query": query, "error": str(error)}), flush=True)
    session.stop()


if __name__ == "__main__":
    main()
