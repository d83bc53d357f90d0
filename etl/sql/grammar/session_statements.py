"""Statements of a session with Flink: those that a script needs not, and those that have no counterpart here."""

from __future__ import annotations

NO_EFFECT = {
    "USE": "names of catalogs and databases before the name of a table are left out",
    "SHOW": "`etl list` shows components, `etl explain` the plan of a script",
    "DESCRIBE": "`etl explain` shows the columns of a script's tables, `etl describe` a component",
    "DESC": "`etl explain` shows the columns of a script's tables, `etl describe` a component",
    "ADD": "functions of one's own are named by CREATE FUNCTION … LANGUAGE PYTHON",
    "REMOVE": "functions of one's own are named by CREATE FUNCTION … LANGUAGE PYTHON",
    "ANALYZE": "the engine needs no statistics of tables",
    "LOAD": "components are installed as packages",
    "UNLOAD": "components are installed as packages",
    "QUIT": "a script ends with its last statement",
    "EXIT": "a script ends with its last statement",
    "CLEAR": "a script has no screen",
    "HELP": "`etl --help` lists the commands",
    "CREATE CATALOG": "tables are those that the script declares; names of catalogs before their names are left out",
    "CREATE DATABASE": "tables are those that the script declares; names of databases before their names are left out",
    "DROP FUNCTION": "functions are those that the script declares",
    "DROP CATALOG": "tables are those that the script declares",
    "DROP DATABASE": "tables are those that the script declares",
}
"""Statements that change nothing here, and why."""

REFUSED = {
    "ALTER": "a script is one job: change the statement that declares it",
    "DELETE": "a stream adds rows; PRIMARY KEY (…) NOT ENFORCED replaces them by key",
    "UPDATE": "a stream adds rows; PRIMARY KEY (…) NOT ENFORCED replaces them by key",
    "MERGE": "INSERT INTO a table with PRIMARY KEY (…) NOT ENFORCED replaces rows by key",
    "TRUNCATE": "Flink has it in batch mode, we do not, because a script adds and replaces rows: empty it before the run",
    "CALL": "Flink has it, we do not, because procedures belong to catalogs: run the command before the script",
    "COMPILE": "Flink has it, we do not, because the script itself is what runs again: `etl explain` shows its plan",
    "STOP": "Flink has it, we do not, because a run is a process: end it with SIGTERM, or `etl serve` stops it",
    "CREATE MODEL": "Flink has it, we do not, because functions in Python call models: CREATE FUNCTION … LANGUAGE PYTHON",
    "CREATE MATERIALIZED": "Flink has it, we do not, because INSERT INTO fills tables: CREATE TABLE … AS SELECT …",
    "EXECUTE PLAN": "Flink has it, we do not, because the script itself is what runs again",
}
"""Statements that a script cannot have, and what to do instead."""


def statement_key(words: list[str], table: dict[str, str]) -> str | None:
    """The entry of a table that a statement's first words are, None for none."""
    for count in (2, 1):
        key = " ".join(words[:count]).upper()
        if key in table:
            return key
    return None
