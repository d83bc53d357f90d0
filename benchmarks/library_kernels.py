"""Each pattern of the grok vectors in this process, on one thread: prints CPU seconds, ours and the other's, as JSON."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from benchmarks.folders import acceptance
from etl.scanner.pattern_error import PatternError
from etl.scanner.regex_printer import format_regex
from etl.scanner.tree import Node, backtracking_reason, captures
from parsers.grok.compiler import compile_pattern
from parsers.grok.parser import Grok

ROWS = 5_000
TIMES = 7

Run = Callable[[pa.StringArray], object]
"""One pattern over a column."""


def main() -> None:
    """All patterns, in the order of the vectors."""
    found = [measured(*key, texts) for key, texts in messages().items()]
    print(json.dumps({"rows": ROWS, "times": TIMES, "patterns": [pattern for pattern in found if pattern]}))


def messages() -> Mapping[tuple[str, str], list[str]]:
    """Set and pattern → the messages of its vectors, those that must not match, too."""
    found: dict[tuple[str, str], list[str]] = {}
    for line in (acceptance() / "grok" / "vectors.jsonl").read_text().splitlines():
        vector = json.loads(line)
        found.setdefault((vector["set"], vector["pattern"]), []).append(vector["message"])
    return found


def measured(pattern_set: Any, pattern: str, texts: list[str]) -> dict[str, Any] | None:
    """One pattern, or None where the library lacks a name of it."""
    tree = compile_pattern(pattern, pattern_set, frozenset(), False)
    if isinstance(tree, PatternError):
        return None
    column = pa.array((texts * (ROWS // len(texts) + 1))[:ROWS])
    other = "regex" if backtracking_reason(tree) else "RE2"
    opened: Mapping[str, Callable[[], Run]] = {
        "ours": lambda: Grok(patterns=[pattern], pattern_set=pattern_set).compile(),
        "other": lambda: OTHERS[other](tree),
    }
    runs: dict[str, Run] = {}
    cold = {}
    for name, open_it in opened.items():
        began = time.process_time()
        runs[name] = open_it()
        runs[name](column)
        cold[name] = time.process_time() - began
    warm = dict(_best(runs, column))
    seconds = {f"{name}_{when}": value for when, of in (("cold", cold), ("warm", warm)) for name, value in of.items()}
    return {"set": pattern_set, "pattern": pattern, "rows": len(column), "other": other, **seconds}


def _best(runs: Mapping[str, Run], column: pa.StringArray) -> Iterator[tuple[str, float]]:
    """The best of some turns."""
    times: dict[str, list[float]] = {name: [] for name in runs}
    for _ in range(TIMES):
        for name, run in runs.items():
            began = time.process_time()
            run(column)
            times[name].append(time.process_time() - began)
    return ((name, min(some)) for name, some in times.items())


def _re2(tree: Node) -> Run:
    expression = format_regex(tree)
    if not captures(tree):
        return lambda column: pc.match_substring_regex(column, expression)
    return lambda column: pc.extract_regex(column, expression)


def _regex(tree: Node) -> Run:
    import regex

    search = regex.compile(format_regex(tree, backtracking=True), regex.VERSION1 | regex.ASCII).search
    names = [f"c{number}" for number in range(len(captures(tree)))]

    def run(column: pa.StringArray) -> object:
        found = [search(text) for text in column.to_pylist()]
        return [pa.array([match.group(name) if match else None for match in found], pa.string()) for name in names]

    return run


OTHERS: Mapping[str, Callable[[Node], Run]] = {"RE2": _re2, "regex": _regex}


if __name__ == "__main__":
    main()
