"""Tables of rsqldb: their options and columns in the pipeline that a script is equal to."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from etl.catalogue import installed
from etl.cli.main import cli
from etl.config.loader import inspect
from etl.sql.script import compile_script
from etl.sql.table_options.rsql import UNAVAILABLE


def source(options: str, columns: str = "a STRING, b BIGINT") -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """The options of the source of a table, and the steps that read it."""
    compiled = compile_script(f"CREATE TABLE t ({columns}) WITH ({options}); SELECT a FROM t", installed())
    assert not compiled.errors, [str(error) for error in compiled.errors]
    steps = [step for stream in compiled.value["streams"].values() for step in stream["steps"]]
    return compiled.value["sources"]["t"], [step for step in steps if step != {"type": "select", "fields": {"a": "a"}}]


def sink(options: str) -> dict[str, Any]:
    text = f"CREATE TABLE s (a STRING) WITH (type = 'file', filePath = 'i'); CREATE TABLE t (a STRING) WITH ({options});"
    compiled = compile_script(f"{text} INSERT INTO t SELECT a FROM s", installed())
    assert not compiled.errors, [str(error) for error in compiled.errors]
    return {key: value for key, value in compiled.value["sinks"]["t"].items() if key != "from"}


def table(options: str) -> dict[str, Any]:
    """The options of a look-up table."""
    text = f"""CREATE TABLE t (k STRING, v INT, PRIMARY KEY (k), PERIOD FOR SYSTEM_TIME) WITH ({options});
CREATE TABLE s (a STRING) WITH (type = 'file', filePath = 'i');
SELECT s.a, t.v FROM s JOIN t FOR SYSTEM_TIME AS OF PROCTIME() ON s.a = t.k"""
    compiled = compile_script(text, installed())
    assert not compiled.errors, [str(error) for error in compiled.errors]
    return {key: value for key, value in compiled.value["tables"]["t"].items() if key not in ("key", "columns", "url", "type")}


def error(options: str, query: str = "SELECT a FROM t") -> str:
    compiled = compile_script(f"CREATE TABLE t (a STRING) WITH ({options}); {query}", installed())
    return "; ".join(f"{one.at}: {one}: {one.hint}" for one in compiled.errors)


def test_options_have_any_case_and_no_commas_and_empty_ones_are_not_set() -> None:
    found = sink("type = 'rds' URL = 'jdbc:mysql://h/d', username = '', tablename = 't', batchSize = '100',")

    assert found == {"type": "database", "url": "mysql://h/d", "table": "t", "batch": {"max_events": 100}}


@pytest.mark.parametrize(
    ("options", "found"),
    [
        ("type = 'file', filePath = 'rows'", {"path": "rows", "format": "json"}),
        ("type = 'file', filePath = 'rows.txt'", {"path": "rows.txt", "format": "json"}),
        ("type = 'file', filePath = 'rows.csv.gz'", {"path": "rows.csv.gz"}),
        (
            "type = 'file', filePath = 'rows', isJsonData = 'false', fieldDelimiter = '|'",
            {"path": "rows", "format": "csv", "header": ["k", "v"], "delimiter": "|"},
        ),
        ("type = 'db', url = 'jdbc:mysql://h/d', tableName = 'from t where x > 3'", {"query": "SELECT * from t where x > 3"}),
        ("type = 'db', url = 'jdbc:mysql://h/d', tableName = 't'", {"table": "t"}),
        ("'connector' = 'filesystem', 'path' = 'rows', 'format' = 'json'", {"path": "rows", "format": "json"}),
    ],
)
def test_a_look_up_file_is_json_lines_and_a_database_may_give_chosen_rows(options: str, found: dict[str, Any]) -> None:
    assert table(options) == found


def test_a_sink_takes_no_query() -> None:
    text = "CREATE TABLE s (a STRING) WITH (type = 'file', filePath = 'i'); INSERT INTO t SELECT a FROM s"

    assert "a sink writes into a table" in error("type = 'db', url = 'jdbc:mysql://h/d', tableName = 'from t where x'", text)


def test_a_topic_without_name_servers_is_read_from_those_of_the_environment() -> None:
    found, _ = source("topic = 'x', data_format = 'json'")

    assert found == {"type": "rocketmq", "topics": ["x"], "servers": ["${NAMESRV_ADDR:-127.0.0.1:9876}"]}


def test_names_of_properties_are_variables() -> None:
    found, _ = source("type = 'rocketmq', topic = 'x', namesrvAddr = 'dipper.mq.addr'")

    assert found["servers"] == ["${DIPPER_MQ_ADDR}"]


def test_header_columns_are_properties_of_messages() -> None:
    found, steps = source("type = 'rocketmq', topic = 'x'", "a STRING, trace STRING HEADER, level INT HEADER")

    assert found["property_fields"] == {"level": "level", "trace": "trace"}
    assert steps == [{"type": "json", "fields": {"a": "string"}}, {"type": "convert", "fields": {"level": "int"}}]


def test_syslog_has_its_columns_protocol_and_senders() -> None:
    options = "type = 'syslog', port = '514', protol = 'tcp', client_ips = '10.0.0.0-10.0.0.3;192.168.1.7'"
    found, steps = source(options, "a AS upper(_msg), _msg STRING, _level INT")

    assert found == {"type": "syslog", "listen": ["tcp://0.0.0.0:514"], "allow": ["10.0.0.0/30", "192.168.1.7/32"]}
    assert steps[:2] == [
        {"type": "syslog"},
        {"type": "select", "fields": {"_msg": "cast(message as string)", "_level": "cast(log.syslog.severity.code as int)"}},
    ]


def test_elasticsearch_has_its_port() -> None:
    found = sink("type = 'es', endPoint = 'es1;es2', port = '9200', esIndex = 'i', needAuth = 'true', authUsername = 'u'")

    assert found == {"type": "elasticsearch", "urls": ["http://es1:9200", "http://es2:9200"], "index": "i", "user": "u"}


def test_a_sink_has_the_group_of_producers_only() -> None:
    found = sink("type = 'rocketmq', topic = 'x', namesrvAddr = 'h:1', consumerGroup = 'g', producerGroup = 'p', tag = '*'")

    assert found == {"type": "rocketmq", "topic": "x", "servers": ["h:1"], "group": "p"}


def test_text_that_is_no_json_is_one_column() -> None:
    assert source("type = 'file', filePath = 'f', isJsonData = 'false'", "a STRING")[1] == [
        {"type": "rename", "fields": {"message": "a"}}
    ]


def test_a_column_with_the_name_of_a_hidden_field_is_read(tmp_path: Path) -> None:
    script = tmp_path / "job.sql"
    script.write_text("CREATE TABLE t (_source STRING) WITH (type = 'file', filePath = 'f'); SELECT _source AS a FROM t")

    assert not inspect(script).problems


@pytest.mark.parametrize(
    ("options", "found"),
    [
        ("type = 'syslog', port = '1', protol = 'sctp'", "'sctp' is not a protocol: write 'udp' or 'tcp'"),
        ("type = 'syslog', port = '1', client_ips = '10.*'", "'10.*' is not an address, range or network"),
        ("type = 'file', filePath = 'f', msgIsJsonArray = 'true'", "msgIsJsonArray = 'true' cannot be read"),
        ("type = 'rocketmq', topic = 'x', encoding = 'GBK'", "the encoding 'GBK' is not read here"),
        ("type = 'sls', project = 'p'", "there is no connector 'sls': Alibaba's log service has no connector here"),
        ("type = 'datahub', project = 'p'", "there is no connector 'datahub': DataHub has no connector here"),
        ("type = 'rocketmq', topic = 'x', topik = 'y'", "there is no option 'topik': is 'topic' meant?"),
    ],
)
def test_what_does_not_exist_here_is_refused(options: str, found: str) -> None:
    assert found in error(options)


def test_a_view_of_a_window_has_the_time_of_its_rows() -> None:
    text = """CREATE TABLE t (a STRING, ts TIMESTAMP, WATERMARK w FOR ts AS withOffset(ts, 2)) WITH (type = 'file', filePath='f');
CREATE VIEW m AS SELECT a, count(*) AS n FROM t GROUP BY TUMBLE(ts, INTERVAL '1' MINUTE), a;
SELECT a, SUM(n) AS n FROM m GROUP BY TUMBLE(rowtime, INTERVAL '1' HOUR), a"""

    streams = compile_script(text, installed()).value["streams"]

    assert streams["m"]["steps"][-1]["fields"]["rowtime"] == "window_time"
    assert streams["result_rows"]["steps"][0]["time"] == "rowtime"


def test_a_misspelt_type_has_a_hint() -> None:
    [found] = compile_script("CREATE TABLE t (a LONG, b varbianary) WITH (type = 'print')", installed()).errors

    assert (str(found), found.hint) == ("a type is expected, not 'varbianary'", "is VARBINARY meant?")


def test_a_file_is_not_emptied() -> None:
    text = "CREATE TABLE s (a STRING) WITH (type = 'file', filePath = 'i'); INSERT INTO t SELECT a FROM s"

    assert "a file is always continued at its end" in error("type = 'file', filePath = 'f', needAppend = 'false'", text)


def test_statements_need_no_semicolon_and_functions_no_quotes() -> None:
    text = "CREATE GROK p AS a.b.C; CREATE FUNCTION f AS 'a.B' CREATE TABLE t (a STRING) WITH (type = 'file', filePath = 'f');"

    text += " SELECT a FROM t"
    assert not compile_script(text, installed()).errors


def test_insert_goes_by_names_or_else_by_places() -> None:
    tables = "CREATE TABLE s (a STRING, b STRING) WITH (type = 'file', filePath = 'i');"
    tables += "CREATE TABLE t (x STRING, y STRING) WITH (type = 'print');"

    by_places = compile_script(f"{tables} INSERT INTO t SELECT a, b FROM s", installed())
    by_names = compile_script(f"{tables} INSERT INTO t (y STRING, x) SELECT a AS y, b AS x FROM s", installed())

    assert by_places.value["streams"]["t_rows"]["steps"][-1]["fields"] == {"x": "a", "y": "b"}
    assert by_names.value["streams"]["t_rows"]["steps"][-1]["fields"] == {"y": "a", "x": "b"}


def test_what_a_word_processor_makes_of_a_script_is_a_warning() -> None:
    text = "// a comment\nCREATE TABLE t \uff08_source STRING\uff0cb STRING) WITH (type = 'file', filePath = \u2018f\u2019);\n"
    text += "SELECT _ source AS a FROM t"

    compiled = compile_script(text, installed())

    assert not compiled.errors
    assert compiled.value["sources"]["t"]["path"] == "f"
    assert [(one.at, str(one)) for one in compiled.warnings] == [
        (0, "'//' is read as '--'"),
        (28, "'\uff08' is read as '('"),
        (43, "'\uff0c' is read as ','"),
        (86, "'\u2018f\u2019' is read as \"'f'\""),
        (99, "'_ source' is read as '_source'"),
    ]


def test_a_script_that_only_declares_is_checked() -> None:
    right = compile_script("CREATE TABLE t (a STRING) WITH (type = 'print', filePath = 'f')", installed())
    wrong = compile_script("CREATE TABLE t (a STRING) WITH (type = 'file', filePath = 'f', colour = 'f')", installed())

    assert [(one.code, str(one)) for one in right.warnings] == [
        ("no-effect", "'print' has no option 'filePath'"),
        ("missing-sink", "the script has no query: it declares only, and there is nothing to run"),
    ]
    assert (right.errors, [one.code for one in wrong.errors]) == ([], ["unknown-option"])
    assert [one.code for one in compile_script("-- nothing", installed()).errors] == ["missing-sink"]


def test_functions_in_java_become_functions_in_python(tmp_path: Path) -> None:
    text = """CREATE FUNCTION getTime AS 'com.x.Now'; CREATE FUNCTION parts AS 'com.x.Parts'; CREATE FUNCTION unused AS 'com.x.U';
CREATE FUNCTION small AS 'org.apache.rocketmq.streams.script.function.impl.string.LowerFunction';
CREATE TABLE t (a STRING, n BIGINT) WITH (type = 'file', filePath = 'f');
CREATE TABLE o (a STRING, n BIGINT, p STRING) WITH (type = 'print');
INSERT INTO o SELECT small(a), getTime(n, 3), p FROM t, LATERAL TABLE(parts(a)) AS r(p, q);"""
    (tmp_path / "job.sql").write_text(text)

    ran, again = (CliRunner().invoke(cli, ["convert", str(tmp_path / "job.sql"), "--stubs", "functions.py"]) for _ in range(2))
    (tmp_path / "job.yaml").write_text(ran.stdout)
    (tmp_path / "named.sql").write_text(f"SET 'java.functions' = 'functions.py';\n{text}")

    functions = (tmp_path / "functions.py").read_text()
    assert "def gettime(n: int | None, value2: int | None) -> int:" in functions
    assert "def parts(a: str | None) -> Iterator[PartsRow]:" in functions
    assert "    p: str\n    q: str\n" in functions
    assert "unused" not in functions
    assert "no function is missing" in again.stderr
    assert "rsql_lower(a)" in ran.stdout
    assert not [one for one in inspect(tmp_path / "job.yaml").problems if one.severity == "error"]
    assert [one.message for one in inspect(tmp_path / "named.sql").problems] == [
        "'unused' is the class 'com.x.U' of Java, which does not run here; no query calls it"
    ]


def test_a_function_in_java_is_refused_where_it_is_called() -> None:
    text = "CREATE FUNCTION f AS 'a.B'; CREATE TABLE t (a STRING) WITH (type = 'file', filePath = 'f'); SELECT f(a) FROM t"

    [found] = compile_script(text, installed()).errors

    assert str(found) == "'f' is the class 'a.B' of Java, which does not run here"
    assert "`etl convert --stubs functions.py` writes a function f() in Python" in (found.hint or "")
    assert found.at == text.index("f(a)")


@pytest.mark.parametrize(
    ("expression", "rsql", "flink"),
    [
        ("md5(a)", "rsql_md5(a)", "md5(a)"),
        ("b / b", "b / nullif(b, 0)", "flink_divide(b, b)"),
        ("date_format(a, 'yyyy', 'MM')", "flink_date_format(flink_to_timestamp(a, 'yyyy'), 'MM')", None),
        ("str_to_map(a)['k']", "rsql_item(rsql_str_to_map(a), 'k')", None),
        ("regexp_replace(a, a, 'x')", "flink_regexp_replace(a, a, 'x')", None),
        ("if(b > 1, 'x', a)", "IF(b > 1, 'x', a)", None),
    ],
)
def test_functions_have_the_meaning_of_the_dialect(expression: str, rsql: str, flink: str | None) -> None:
    for options, expected in (
        ("type = 'file', filePath = 'f'", rsql),
        ("'connector' = 'filesystem', 'path' = 'f', 'format' = 'json'", flink),
    ):
        if expected is not None:
            text = f"CREATE TABLE t (a STRING, b BIGINT) WITH ({options}); SELECT {expression} AS r FROM t"
            compiled = compile_script(text, installed())
            found = [
                step["fields"]["r"]
                for one in compiled.value["streams"].values()
                for step in one["steps"]
                if "r" in step.get("fields", {})
            ]
            assert [one.lower() for one in found] == [expected.lower()]


def test_json_array_gives_a_row_for_each_object() -> None:
    text = "CREATE TABLE t (a STRING) WITH (type = 'file', filePath = 'f');"
    text += "SELECT x, y FROM t, LATERAL TABLE(json_array(a, 'k', 'n')) AS r(x, y)"

    compiled = compile_script(text, installed())

    assert [step["type"] for one in compiled.value["streams"].values() for step in one["steps"]] == [
        "json",
        "set",
        "unnest",
        "select",
    ]


def inventory(path: Path) -> list[tuple[str, str, str]]:
    """Type, option and whether a source, sink or dimension takes it, of every option of the inventory."""
    table = path.read_text("utf-8").partition("## WITH options")[2].partition("\n## ")[0]
    found: list[tuple[str, str, str]] = []
    types: list[str] = []
    for line in table.splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if len(cells) != 6 or cells[1] in ("option", "---", "type") or cells[2] == "---":
            types = _types(cells[0]) if len(cells) == 6 and cells[1] == "type" else types
            continue
        types = _types(cells[0]) if cells[0] else types
        names = ["topic"] if " " in cells[1] and cells[0] else re.split(r"\s*[/,]\s*", re.sub(r"\(.*?\)", "", cells[1]).strip())
        found += [(type_, name, one) for type_ in types for name in names for one in cells[2].split("/") if name]
    return found


def _types(cell: str) -> list[str]:
    names = re.sub(r"\s*\(\d+ / \d+\)", "", cell)
    return [""] if names.startswith("(") else re.split(r"\s*[/,]\s*", names)


REQUIRED = {
    "rocketmq": "topic = 'x', namesrvAddr = 'h:1'",
    "file": "filePath = 'f'",
    "db": "url = 'jdbc:mysql://h/d', tableName = 't'",
    "syslog": "port = '514'",
    "es": "endPoint = 'h', port = '9200', esIndex = 'i'",
    "kafka": "topic = 'x', bootstrap.servers = 'h:1'",
    "mqtt": "url = 'tcp://h:1883', topic = 'x', clientId = 'c'",
    "": "topic = 'x', data_format = 'json'",
}
ALIASES = {"rds": "db", "elasticsearch": "es", "metaq": "rocketmq"}
VALUES = {"needAppend": "true", "msgIsJsonArray": "false", "isJsonData": "true", "protol": "udp", "client_ips": "10.0.0.1"}
VALUES |= {"url": "jdbc:mysql://h/d", "sqlMode": "replace", "encoding": "UTF-8", "fieldDelimiter": ",", "schema": "http"}
VALUES["data_format"] = "json"
VALUES |= dict.fromkeys(("cleanSession", "automaticReconnect"), "true")


NO_TYPE = "add 'type' = '…' or 'connector' = '…'"


def _value(type_: str, option: str) -> str:
    return "tcp://h:1883" if (type_, option) == ("mqtt", "url") else VALUES.get(option, "1")


def _script(type_: str, option: str, family: str) -> str:
    """A script whose table ``t`` has the option, beside those that its type requires."""
    required = REQUIRED.get(ALIASES.get(type_, type_), "")
    others = [one for one in required.split(", ") if one and not one.startswith(f"{option} ")]
    options = ", ".join([*([f"type = '{type_}'"] if type_ else []), *others, f"{option} = '{_value(type_, option)}'"])
    columns = "a AS upper(_msg), _msg STRING" if type_ == "syslog" else "a STRING, PRIMARY KEY (a)"
    table = f"CREATE TABLE t ({columns}) WITH ({options});"
    other = "CREATE TABLE o (a STRING) WITH (type = 'file', filePath = 'i');"
    queries = {
        "s": "SELECT a FROM t",
        "k": "INSERT INTO t SELECT a FROM o",
        "d": "SELECT o.a FROM o JOIN t FOR SYSTEM_TIME AS OF PROCTIME() ON o.a = t.a",
    }
    return f"{table} {other if family != 's' else ''} {queries[family]}"


@pytest.mark.slow
def test_every_option_of_the_inventory_is_read_or_found_with_a_hint(acceptance: Path) -> None:
    options = inventory(acceptance / "rsql" / "sql" / "inventory.md")
    assert len(options) > 110

    wrong = []
    for type_, option, family in options:
        compiled = compile_script(_script(type_, option, family), installed())
        misspelt = compile_script(_script(type_, f"{option}x", family), installed())
        if type_ in UNAVAILABLE:
            right = [one.code for one in compiled.errors] == ["unknown-type"] and all(one.hint for one in compiled.errors)
        else:
            near = [one for one in misspelt.errors if (one.hint or "") in (f"is {option!r} meant?", NO_TYPE)]
            right = not compiled.errors and not compiled.warnings and len(near) == 1
        if not right:
            wrong.append(
                f"{type_} {option} {family}: {[*compiled.errors, *compiled.warnings]}; {[one.hint for one in misspelt.errors]}"
            )

    assert not wrong, "\n".join(wrong)
