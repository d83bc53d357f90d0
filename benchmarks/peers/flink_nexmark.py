"""Nexmark in Flink's SQL: ``flink_nexmark.py DATA OUTPUT WARM EVENTS QUERY…`` prints the cost of each query."""

import json
import os
import sys
import time
from pathlib import Path

from pyflink.table import EnvironmentSettings, TableEnvironment  # type: ignore[import-not-found]

data, output, warm, measured = (Path(word) for word in sys.argv[1:5])
SETTINGS = {
    "parallelism.default": "2",
    "pipeline.object-reuse": "true",
    "table.exec.mini-batch.enabled": "true",
    "table.exec.mini-batch.allow-latency": "2 s",
    "table.exec.mini-batch.size": "50000",
    "table.optimizer.distinct-agg.split.enabled": "true",
    "table.local-time-zone": "UTC",
    "taskmanager.numberOfTaskSlots": "2",
    "taskmanager.memory.process.size": "4g",
}
JSON = "'format' = 'json', 'json.timestamp-format.standard' = 'SQL'"


def cpu() -> float:
    """CPU seconds of this process and the JVM that it has started."""
    jvm = [int(child) for child in Path(f"/proc/self/task/{os.getpid()}/children").read_text().split()]
    ticks = 0
    for process in (os.getpid(), *jvm):
        fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
        ticks += sum(int(field) for field in fields[11:15])  # user, system, and both of children that have ended
    return ticks / os.sysconf("SC_CLK_TCK")


def text(query: str, events: Path) -> str:
    """A query with all it needs."""
    folder = data / "queries"
    name = f"adapted/{query}" if query == "q13" else query
    ddl = (folder / "ddl_source.sql").read_text() + ";" + (folder / "ddl_views.sql").read_text() + ";"
    ddl = (
        ddl.replace("'format' = 'json'", JSON).replace("${EVENTS}", str(events / "halves")).replace("${NEXMARK_TABLE}", "datagen")
    )
    script = (folder / f"{name}.sql").read_text()
    script = script.replace("${FLINK_HOME}/data/side_input.txt", str(data / "side_input.txt"))
    script = script.replace("${SIDE_INPUT}", str(data / "side_input.txt"))
    script = script.replace("file://${NEXMARK_DIR}/data/output/${SUBMIT_TIME}", f"file://{output}/{query}")
    return ddl + script


def statements(script: str) -> list[str]:
    """The statements of a script without comments; no text of these scripts holds a semicolon."""
    lines = [line for line in script.splitlines() if not line.lstrip().startswith("--")]
    return [one for one in "\n".join(lines).split(";") if one.strip()]


def run(query: str, events: Path) -> tuple[float, float]:
    """Seconds and CPU seconds of a query in an environment of its own."""
    tables = TableEnvironment.create(EnvironmentSettings.in_streaming_mode())
    for name, value in SETTINGS.items():
        tables.get_config().set(name, value)
    *before, insert = statements(text(query, events))
    for statement in before:
        if "CREATE FUNCTION" not in statement:
            tables.execute_sql(statement)
    insert = insert.replace("count_char(extra, 'c')", "CAST(CHAR_LENGTH(extra) AS BIGINT)")
    began, used = time.monotonic(), cpu()
    tables.execute_sql(insert).wait()
    return time.monotonic() - began, cpu() - used


os.makedirs(output, exist_ok=True)
for query in sys.argv[5:]:
    try:
        run(query, warm)
        seconds, used = run(query, measured)
        print(json.dumps({"query": query, "seconds": seconds, "cpu": used}), flush=True)
    except Exception as error:  # whatever Flink says of a query that it refuses
        lines = [line.strip() for line in str(error).splitlines() if line.strip().startswith(("Caused by", "org.apache"))]
        print(json.dumps({"query": query, "error": (lines or [str(error)])[-1]}), flush=True)
