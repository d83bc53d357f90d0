"""``python -m benchmarks [NAME…]``: measure, keep what was found, write RESULTS.md."""

from __future__ import annotations

import argparse
import shlex
import sys
import time
from collections.abc import Callable, Mapping

from benchmarks import (
    apache,
    cluster,
    correlate,
    database,
    elasticsearch,
    elasticsearch_recipe,
    follow,
    follow_window,
    joins,
    kafka,
    lake,
    library,
    lint,
    live_keys,
    lookups,
    machine,
    many_keys,
    many_pipelines,
    memory,
    micro,
    nexmark,
    ready,
    recipes,
    report,
    results,
    rocketmq,
    rules,
    small_batches,
    sshd,
    startup,
    state,
    syslog,
    user_functions,
    viewers,
    w1,
    w1_window,
)
from benchmarks.data import LINES
from benchmarks.settings import EVENTS, Settings

BENCHMARKS: Mapping[str, Callable[[Settings], results.Result]] = {
    "w1": w1.run,
    "apache": apache.run,
    "sshd": sshd.run,
    "w1_window": w1_window.run,
    "follow": follow.run,
    "follow-window": follow_window.run,
    "syslog": syslog.run,
    "startup": startup.run,
    "state": state.run,
    "small-batches": small_batches.run,
    "live-keys": live_keys.run,
    "many-keys": many_keys.run,
    "joins": joins.run,
    "nexmark": nexmark.run,
    "lint": lint.run,
    "micro": micro.run,
    "library": library.run,
    "user-functions": user_functions.run,
    "viewers": viewers.run,
    "many-pipelines": many_pipelines.run,
    "ready": ready.run,
    "recipes": recipes.run,
    "kafka": kafka.run,
    "rocketmq": rocketmq.run,
    "lake": lake.run,
    "database": database.run,
    "elasticsearch": elasticsearch.run,
    "elasticsearch-recipe": elasticsearch_recipe.run,
    "lookups": lookups.run,
    "rules": rules.run,
    "correlate": correlate.run,
    "memory": memory.run,
    "cluster": cluster.run,
}


def main() -> None:
    """Run what is named, all by default; results of a try (``--dry``) are shown and not kept."""
    options = _options()
    queries = tuple(options.queries.split(",")) if options.queries else ()
    settings = Settings(options.lines, options.runs, options.minutes, options.events, queries)
    print(f"load {machine.load()}", file=sys.stderr)
    for name in options.names or BENCHMARKS:
        print(name, file=sys.stderr, flush=True)
        result = BENCHMARKS[name](settings)
        result.command = shlex.join(["python", "-m", "benchmarks", *sys.argv[1:]])
        result.date = time.strftime("%Y-%m-%d %H:%M", time.gmtime()) + " UTC"
        result.machine = machine.describe()
        if options.dry:
            print("\n".join(report.section(result)))
        else:
            results.save(result)
    if not options.dry:
        report.write(list(BENCHMARKS))
        print(f"written: {report.RESULTS}", file=sys.stderr)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks", description="Measure the engine against its targets and its peers."
    )
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"which: {', '.join(BENCHMARKS)}; default all")
    parser.add_argument("--lines", type=int, default=LINES, help="lines of the logs (default %(default)s)")
    parser.add_argument("--runs", type=int, default=3, help="runs of each, of which the median counts (default %(default)s)")
    parser.add_argument("--minutes", type=float, default=10.0, help="how long to follow (default %(default)s)")
    parser.add_argument("--events", type=int, default=EVENTS, help="events of each Nexmark query (default %(default)s)")
    parser.add_argument("--queries", help="Nexmark queries, with commas between them, such as q0,q5 (default all)")
    parser.add_argument("--dry", action="store_true", help="show what was found, keep nothing")
    options = parser.parse_args()
    unknown = [name for name in options.names if name not in BENCHMARKS]
    if unknown:
        parser.error(f"unknown: {', '.join(unknown)}; there are {', '.join(BENCHMARKS)}")
    others = set(options.queries.split(",")) - set(nexmark.QUERIES) if options.queries else set()
    if others:
        parser.error(f"unknown queries: {', '.join(sorted(others))}; there are {', '.join(nexmark.QUERIES)}")
    return options


if __name__ == "__main__":
    main()
