"""The step `rules`: its own rules in Spark SQL, what it gives, and files that change."""

from __future__ import annotations

import os
import pickle
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from etl.api import NOTICE
from etl.expressions import compile_expression
from etl.rules.conditions.tree import Leaf
from etl.rules.engine.batch_engine import Engine
from etl.rules.predicates.text import Text
from etl.steps.detection.rules import Rules

pytestmark = pytest.mark.slow

SCHEMA = pa.schema([("process", pa.string()), ("user_name", pa.string()), ("n", pa.int64()), ("_offset", pa.int64())])
EVENTS = pa.RecordBatch.from_pydict(
    {
        "process": ["sh", "sh", "baash", None, "C:\\a%b", "10.1.2.3", "SH"],
        "user_name": ["x", "root", None, "x", "", "Root", "ro"],
        "n": [1, 2, 3, None, 6, -1, 10],
        "_offset": list(range(7)),
    },
    schema=SCHEMA,
)


def rules(*given: dict[str, Any], **options: Any) -> Rules:
    return Rules.model_validate({"type": "rules", "rules": list(given), **options})


def out(step: Rules, batch: pa.RecordBatch = EVENTS) -> list[dict[str, Any]]:
    found = step.open(SCHEMA)(batch)
    assert not found.rejects
    assert found.events.schema.types == step.fields(SCHEMA).types
    assert found.events.schema.names == step.fields(SCHEMA).names
    return found.events.to_pylist()


def names(step: Rules) -> dict[int, list[str]]:
    return {row["_offset"]: [rule["title"] for rule in row["rules"]] for row in out(step)}


ROOT = {"name": "root", "where": "user_name = 'root'", "level": "high", "tags": ["a", "b"], "author": "me"}
SHELL = {"name": "shell", "where": "process in ('sh', 'bash')"}


def test_matching_events_are_kept_with_their_rules() -> None:
    assert names(rules(ROOT, SHELL)) == {0: ["shell"], 1: ["root", "shell"]}


def test_annotated_events_are_all_kept() -> None:
    assert names(rules(ROOT, output="annotate")) == {n: ["root"] if n == 1 else [] for n in range(7)}


def test_an_alert_is_one_match() -> None:
    # when
    alerts = out(rules(ROOT, SHELL, output="alerts"))

    # then
    assert [(alert["_offset"], alert["rule.id"]) for alert in alerts] == [(0, "shell"), (1, "root"), (1, "shell")]
    assert (alerts[1]["rule.level"], alerts[1]["rule.tags"], alerts[1]["rule.author"]) == ("high", ["a", "b"], "me")


def test_a_match_shows_the_chosen_metadata() -> None:
    # given
    shown_text = {**SHELL, "metadata": {"runbook": "https://wiki/sh", "owners": ["a", "ä"], "cost": 3}}
    expected = ["runbook", "owners", "cost"]

    # when
    listed = out(rules(ROOT, shown_text, metadata=expected))
    alerts = out(rules(ROOT, shown_text, metadata=expected, output="alerts"))

    # then
    assert [[rule["runbook"] for rule in event["rules"]] for event in listed] == [["https://wiki/sh"], [None, "https://wiki/sh"]]
    assert [(alert["rule.owners"], alert["rule.cost"]) for alert in alerts] == [
        ('["a", "ä"]', "3"),
        (None, None),
        ('["a", "ä"]', "3"),
    ]


def test_metadata_cannot_replace_fields_of_a_match() -> None:
    # when
    findings = list(rules(SHELL, metadata=["title", "runbook"]).check(SCHEMA))

    # then
    assert [(finding.code, finding.path, finding.message) for finding in findings] == [
        ("duplicate-field", ("metadata",), "a match tells 'title' already")
    ]


def test_rules_of_files_are_checked_with_the_streams_fields(tmp_path: Path) -> None:
    # given
    file = tmp_path / "own.yml"
    file.write_text("name: lost\nwhere: Zzz = 'x'\n---\nname: open\nwhere: process = 'x' and\n---\nname: good\nwhere: n > 1\n")

    # when
    findings = list(Rules.model_validate({"type": "rules", "files": [str(file)]}).check(SCHEMA))

    # then
    assert [(finding.code, finding.severity) for finding in findings] == [("bad-rule", "warning")] * 2
    assert [finding.location and finding.location.line for finding in findings] == [2, 5]
    assert "'lost': there is no field 'Zzz' here" in findings[0].message
    assert "'open': something is missing beside 'and'" in findings[1].message


def test_a_match_shows_the_version_of_the_rules() -> None:
    # when
    one, again, other = (out(step)[0]["rules"][0]["version"] for step in (rules(SHELL), rules(SHELL), rules(SHELL, ROOT)))

    # then
    assert one == again != other


CONDITIONS = [
    "process = 'sh'",
    "process <> 'sh'",
    "not process = 'sh'",
    "process in ('sh', 'baash')",
    "process not in ('sh')",
    "process like 's%' or user_name is null",
    "not (process like '%h' and n > 1)",
    "process like 'C:\\\\%' or process like '%a\\%b'",
    "process rlike 'ba+sh$'",
    "not process rlike 'ba+sh$'",
    "user_name is not null and not user_name is null",
    "n between 1 and 2 and process = 'sh'",
    "n between 1 and 2 or n >= 6",
    "n = 1 or n <> 3",
    "not (n < 2)",
    "n <= 2 and n > -1",
    "ip_in(process, '10.0.0.0/8')",
    "not ip_in(process, '10.0.0.0/8')",
    "contains(process, 'aa') or startswith(user_name, 'ro')",
    "endswith(user_name, 'oot') and not contains(user_name, 'R')",
    "lower(user_name) = 'root'",
    "process = user_name or n > 5",
    "case when n > 5 and process is not null then true else false end or process = 'sh'",
    "coalesce(user_name, 'root') = 'root'",
    "(process = 'sh')",
    "((process = 'sh') and (n = 1 or (n = 2)))",
    "process is null",
    "length(process) > 2 and n > 2",
    "process like 's_'",
    "process like ''",
    "user_name = ''",
    "n in (1, 2)",
    "process ilike 'S%'",
    "not not process = 'sh'",
    "n > 0 is true",
]


@pytest.mark.parametrize("where", CONDITIONS)
def test_a_rule_matches_where_its_condition_is_true(where: str) -> None:
    # given
    values = compile_expression(where, SCHEMA)(EVENTS).values.to_pylist()

    # when
    found = names(rules({"name": "r", "where": where}))

    # then
    assert list(found) == [n for n, value in enumerate(values) if value]


def test_a_part_that_cannot_be_computed_counts_as_null() -> None:
    assert list(names(rules({"name": "r", "where": "cast(process as int) > 1 or user_name = 'root'"}))) == [1]


def test_texts_as_string_views() -> None:
    # given
    views = pa.RecordBatch.from_arrays(
        [column.cast(pa.string_view()) if column.type == pa.string() else column for column in EVENTS.columns], names=SCHEMA.names
    )

    # when
    found = rules(ROOT, {"name": "long", "where": "length(process) > 5 and process <> user_name"}).open(SCHEMA)(views).events

    # then
    assert found.column("_offset").to_pylist() == [1, 4, 5]


def findings(step: Rules) -> list[tuple[str, tuple[str | int, ...]]]:
    return [(finding.code, finding.path) for finding in step.check(SCHEMA)]


def test_findings(tmp_path: Path) -> None:
    bad = tmp_path / "bad.yml"
    bad.write_text("name: x\n")
    assert findings(rules()) == [("no-rules", ())]
    assert findings(rules({"name": "r", "where": "usr = 1"})) == [("unknown-field", ("rules", 0, "where"))]
    assert findings(rules({"name": "r", "where": "n"})) == [("not-boolean", ("rules", 0, "where"))]
    now = {"name": "r", "where": "current_timestamp() is not null and n = 1"}
    assert findings(rules(now)) == [("rule-needs-spark", ("rules", 0, "where"))]
    assert findings(rules(ROOT, ROOT)) == [("duplicate-rule", ("rules", 1, "name"))]
    assert findings(rules(ROOT, fields="nowhere.yml")) == [("bad-taxonomy", ("fields",))]
    assert findings(rules(ROOT, fields=str(bad))) == [("bad-taxonomy", ("fields",))]
    assert findings(rules(ROOT, fields="sigma/windows.yml")) == []
    assert findings(rules(files=[str(tmp_path / "none.yml")])) == [("no-rule-files", ("files", 0))]
    assert findings(rules(files=[str(tmp_path / "none*.yml")])) == []
    assert findings(rules(files=[str(bad)])) == [("bad-rule", ("files",))]


# ── Files that change ─────────────────────────────────────────────────────────────────────────────


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("SLUICE_CACHE", str(tmp_path / "cache"))
    (tmp_path / "rules").mkdir()
    return tmp_path / "rules"


def publish(folder: Path, name: str, text: str, at: int) -> None:
    """Put a file in place as an editor does, with a time of its own."""
    draft = folder.parent / "draft"
    draft.write_text(text)
    os.utime(draft, (at, at))
    draft.rename(folder / name)


def in_folder(folder: Path) -> Rules:
    return rules(files=[str(folder / "**/*.yml")])


def test_a_changed_added_or_removed_file_counts_for_the_next_task(folder: Path) -> None:
    # given
    publish(folder, "a.yml", "{name: a, where: \"process = 'sh'\"}", 1)
    assert names(in_folder(folder)) == {0: ["a"], 1: ["a"]}

    # when, then
    publish(folder, "b.yml", "{name: b, where: n = 1}", 2)
    assert names(in_folder(folder)) == {0: ["a", "b"], 1: ["a"]}
    publish(folder, "b.yml", "{name: b, where: n = 2}", 3)
    assert names(in_folder(folder)) == {0: ["a"], 1: ["a", "b"]}
    (folder / "a.yml").unlink()
    assert names(in_folder(folder)) == {1: ["b"]}


def test_rules_that_are_added_changed_or_removed_are_announced(folder: Path, caplog: pytest.LogCaptureFixture) -> None:
    # given
    caplog.set_level(NOTICE, "sluice.rules")
    publish(folder, "a.yml", "{name: a, where: n = 1}", 1)
    names(in_folder(folder))
    assert caplog.messages == []

    # when, then
    publish(folder, "b.yml", "\n{name: b, where: n = 1}", 2)
    names(in_folder(folder))
    assert caplog.messages == [f"{folder}/b.yml:2: rule 'b' is added"]

    # when only the line changes, then
    caplog.clear()
    publish(folder, "b.yml", "{name: b, where: n = 1}", 3)
    names(in_folder(folder))
    assert caplog.messages == []

    # when, then
    publish(folder, "b.yml", "{name: b, where: n = 2}", 4)
    (folder / "a.yml").unlink()
    names(in_folder(folder))
    assert caplog.messages == [f"{folder}/b.yml:1: rule 'b' is changed", f"{folder}/a.yml: rule 'a' is removed"]


def test_many_new_rules_are_announced_in_one_line(folder: Path, caplog: pytest.LogCaptureFixture) -> None:
    # given
    caplog.set_level(NOTICE, "sluice.rules")
    publish(folder, "a.yml", "{name: a, where: n = 1}", 1)
    names(in_folder(folder))

    # when
    publish(folder, "b.yml", "".join(f"- {{name: b{n}, where: n = {n}}}\n" for n in range(1_200)), 2)
    names(in_folder(folder))

    # then
    assert caplog.messages == [f"1,200 rules are added, the first: {folder}/b.yml:1: rule 'b0'"]


def test_a_new_rule_that_cannot_be_decided_is_not_announced_as_added(folder: Path, caplog: pytest.LogCaptureFixture) -> None:
    # given
    caplog.set_level(NOTICE, "sluice.rules")
    publish(folder, "a.yml", "{name: a, where: n = 1}", 1)
    names(in_folder(folder))

    # when
    publish(folder, "b.yml", "{name: b, where: m = 1}", 2)
    names(in_folder(folder))

    # then
    assert not any("is added" in message for message in caplog.messages)


@pytest.mark.parametrize("bad", ["name: [", "- name: a", "{name: a, where: 1}", "42", "{title: t, detection: {condition: x}}"])
def test_a_bad_new_file_leaves_the_old_rules(folder: Path, bad: str, caplog: pytest.LogCaptureFixture) -> None:
    # given
    publish(folder, "a.yml", "{name: a, where: n = 1}", 1)
    assert names(in_folder(folder)) == {0: ["a"]}

    # when
    publish(folder, "a.yml", bad, 2)

    # then
    assert names(in_folder(folder)) == {0: ["a"]}
    assert "a.yml" in caplog.text
    assert "stay as they were" in caplog.text


def test_a_problem_is_logged_once_whatever_else_changes(folder: Path, caplog: pytest.LogCaptureFixture) -> None:
    # given
    publish(folder, "a.yml", "{name: a, where: n = 1}", 1)
    publish(folder, "lost.yml", "{name: lost, where: m = 1}", 1)
    names(in_folder(folder))

    # when one file becomes bad, and another one changes meanwhile
    publish(folder, "a.yml", "name: [", 2)
    for at in (3, 4):
        publish(folder, "b.yml", f"{{name: b, where: n = {at}}}", at)
        names(in_folder(folder))

    # then
    assert caplog.text.count("a.yml:2: no YAML") == 1
    assert caplog.text.count("is left out, the first: ") == 1

    # when it is mended, and becomes bad again
    publish(folder, "a.yml", "{name: a, where: n = 1}", 5)
    names(in_folder(folder))
    publish(folder, "a.yml", "name: [", 6)
    names(in_folder(folder))

    # then
    assert caplog.text.count("a.yml:2: no YAML") == 2


def test_a_condition_that_does_not_go_with_the_fields_is_a_bad_one(folder: Path, caplog: pytest.LogCaptureFixture) -> None:
    # given
    publish(folder, "a.yml", "{name: a, where: n = 1}", 1)
    assert names(in_folder(folder)) == {0: ["a"]}

    # when
    publish(folder, "a.yml", "{name: a, where: m = 1}", 2)

    # then
    assert names(in_folder(folder)) == {0: ["a"]}
    assert "a.yml:1: 'a': there is no field 'm' here; the rules of this file stay as they were" in " ".join(caplog.text.split())


def test_an_emptied_file_leaves_the_old_rules(folder: Path, caplog: pytest.LogCaptureFixture) -> None:
    # given
    publish(folder, "a.yml", "{name: a, where: n = 1}", 1)
    assert names(in_folder(folder)) == {0: ["a"]}

    # when
    publish(folder, "a.yml", "", 2)

    # then
    assert names(in_folder(folder)) == {0: ["a"]}
    assert "there is no rule in it any more; to end its rules, remove it" in caplog.text


def test_a_file_may_change_beside_a_rule_that_was_bad_before(folder: Path) -> None:
    # given
    bad = "- {name: bad, where: m = 1}\n"
    publish(folder, "a.yml", f"{bad}- {{name: a, where: n = 1}}", 1)
    assert names(in_folder(folder)) == {0: ["a"]}

    # when
    publish(folder, "a.yml", f"{bad}- {{name: b, where: n = 2}}", 2)

    # then
    assert names(in_folder(folder)) == {1: ["b"]}


def test_a_bad_file_that_was_never_good_has_no_rules(folder: Path) -> None:
    publish(folder, "a.yml", "{name: a, where: n = 1}", 1)
    publish(folder, "b.yml", "name: [", 2)
    assert names(in_folder(folder)) == {0: ["a"]}

    publish(folder, "b.yml", "name: {", 3)
    assert names(in_folder(folder)) == {0: ["a"]}


def test_another_process_uses_the_last_good_rules(folder: Path) -> None:
    # given
    from etl.rules.reload import rule_cache
    from etl.steps.detection import rules as module

    publish(folder, "a.yml", "{name: a, where: n = 1}", 1)
    assert names(in_folder(folder)) == {0: ["a"]}

    # when
    publish(folder, "a.yml", "name: [", 2)
    rule_cache._read.cache_clear()
    module._engine.cache_clear()

    # then
    assert names(in_folder(folder)) == {0: ["a"]}


def test_it_is_a_picklable_value() -> None:
    step = rules(ROOT, files=["x/*.yml"])
    assert pickle.loads(pickle.dumps(step)) == step


def test_a_type_that_comes_only_with_the_events() -> None:
    # given
    open_ = pa.schema([("a", pa.null()), ("_offset", pa.int64())])
    step = rules(
        {"name": "number", "where": "a > 1"}, {"name": "text", "where": "a like 'x%'"}, {"name": "list", "where": "a[0] = 1"}
    )
    run = step.open(open_)

    # when
    found = [
        run(pa.RecordBatch.from_arrays([column, pa.array(range(len(column)))], names=open_.names)).events.to_pylist()
        for column in (pa.array([1, 2]), pa.array(["x1", "y"]), pa.nulls(2))
    ]

    # then
    assert [[(row["_offset"], [rule["id"] for rule in row["rules"]]) for row in rows] for rows in found] == [
        [(1, ["number"])],
        [(0, ["text"])],
        [],
    ]


def test_lists_in_parts_of_a_batch() -> None:
    # given
    fields = pa.schema([("tags", pa.list_(pa.string())), ("_offset", pa.int64())])
    lists = pa.array([["a"], ["b", "x"], None, [], [None, "x"]], fields.field("tags").type)
    batch = pa.RecordBatch.from_arrays([lists, pa.array(range(5))], schema=fields).slice(1)
    condition = Leaf(Text("tags", "equals", "X"))

    # when
    found = Engine([condition], fields).run(batch)

    # then
    assert found.offsets.tolist() == [0, 1, 1, 1, 2]
