"""Sigma rules as SQL: ``sigma_sqlite.py RULES EVENTS OUTPUT`` prints the CPU seconds of its work.

pySigma writes each rule as a statement, and SQLite runs it over the events in a table in memory, as Zircolite does. A match is
a line of the output, its rule's id. The work is reading the events and running the statements, not writing these.
"""

import json
import re
import sqlite3
import sys
import time
from collections.abc import Iterator
from functools import cache

from sigma.backends.sqlite import sqliteBackend
from sigma.collection import SigmaCollection

rules, events, target = sys.argv[1:]
MISSING = re.compile(r"no such column: (.*)")


@cache
def pattern(text: str) -> re.Pattern[str]:
    """A regular expression, once."""
    return re.compile(text)


def regexp(text: str, value: str | None) -> bool:
    """What SQLite asks for ``value REGEXP text``."""
    return value is not None and pattern(text).search(value) is not None


def loaded() -> sqlite3.Connection:
    """The events as texts that compare without regard to case, a column a field; columns' names have no case."""
    database = sqlite3.connect(":memory:")
    database.create_function("regexp", 2, regexp, deterministic=True)
    with open(events) as lines:
        rows = [{name.lower(): value for name, value in json.loads(line).items()} for line in lines]
    names = list(dict.fromkeys(name for row in rows for name in row))
    database.execute(f"CREATE TABLE logs ({', '.join(map(column, names))})")
    values = [[_text(row.get(name)) for name in names] for row in rows]
    database.executemany(f"INSERT INTO logs VALUES ({', '.join('?' * len(names))})", values)
    return database


def column(name: str) -> str:
    """Its definition."""
    return f"`{name}` TEXT COLLATE NOCASE"


def _text(value: object) -> object:
    return json.dumps(value) if isinstance(value, dict | list) else value


def matches(database: sqlite3.Connection, statement: str) -> int:
    """How many events a statement finds; a field that no event has is a column of nulls."""
    while True:
        try:
            return len(database.execute(statement).fetchall())
        except sqlite3.OperationalError as error:
            missing = MISSING.fullmatch(str(error))
            if not missing:
                raise
            database.execute(f"ALTER TABLE logs ADD COLUMN {column(missing[1])}")


def statements() -> Iterator[tuple[str, str]]:
    """A rule's id and SQL; a rule that this back-end cannot write is left out."""
    backend = sqliteBackend(collect_errors=True)
    for rule in SigmaCollection.load_ruleset([rules]).rules:
        for sql in backend.convert_rule(rule):
            yield str(rule.id), sql.replace("SELECT *", "SELECT rowid", 1)


queries = list(statements())
began = time.process_time()
logs = loaded()
with open(target, "w") as out:
    for rule, sql in queries:
        out.write(f"{rule}\n" * matches(logs, sql))
print(json.dumps({"work_seconds": time.process_time() - began, "rules": len({rule for rule, _ in queries})}))
