"""State that is exported from one pipeline and imported into another, with `etl state export` and `etl state import`."""

from __future__ import annotations

import stat
from pathlib import Path

import pytest
from cli.state_pipelines import DEDUPE, WINDOW, Event, Output, Pipeline, failures

KEYED = "keys: [source.ip], time: at, late: 10s"
GROUPED = "group_by: [source.ip], time: at, late: 10s"
STEPS = {
    "window": f"type: window, {GROUPED}, size: 1m, aggregates: {{n: count(*), k: count(distinct user)}}",
    "on-change": f"type: window, {GROUPED}, size: 1m, aggregates: {{m: avg(length(user))}}, emit: on_change",
    "emit-list": f"type: window, {GROUPED}, size: 1m, aggregates: {{n: count(*)}}, "
    "emit: [on_close, {when: n >= 3}, {every: 20s}, {late: {for: 5m, as: corrected}}]",
    "sessions": f"type: window, {GROUPED}, gap: 30s, aggregates: {{n: count(*)}}",
    "dedupe": f"type: dedupe, {KEYED}, within: 1m",
    "dedupe-last": f"type: dedupe, {KEYED}, within: 1m, keep: last, count: n",
    "throttle": f"type: throttle, {KEYED}, limit: 2, every: 1m",
    "suppress": f"type: suppress, {KEYED}, within: 1m",
    "over": f"type: over, {KEYED}, aggregates: {{n: count(*), before: lag(user), new: is_new(user)}}",
    "over-within": f"type: over, {KEYED}, within: 1m, aggregates: {{n: count(*), k: count(distinct user)}}",
    "top": f"type: top, {KEYED}, by: length(user), limit: 2",
    "sequence": f"type: sequence, {KEYED}, within: 1m, pattern: 'f{{2,}} then z', "
    "events: {f: \"user != 'z'\", z: \"user = 'z'\"}",
}
BEFORE: list[list[Event]] = [
    [("a", 1, "x"), ("b", 2, "xx"), (None, 3, "x"), ("a", 12, "y"), ("", 13, "x")],
    [("a", 30, "x"), ("c", 55, "xyz"), ("b", 61, "y")],
]
AFTER: list[list[Event]] = [
    [("a", 56, "x"), ("b", 63, "z"), (None, 64, "z"), ("d", 65, "x"), ("a", 40, "z")],
    [("c", 70, "z"), ("a", 95, "xx"), ("", 99, "x"), ("a", 101, "z")],
    [("e", 500, "x")],
]


@pytest.fixture
def etl_state(capsys: pytest.CaptureFixture[str]) -> Output:
    return Output(capsys)


def pipeline(folder: Path, step: str) -> Pipeline:
    folder.mkdir()
    return Pipeline(folder, step if "\n" in step else f"\n  - {{{step}}}\n")


def results(pipeline: Pipeline, batches: list[list[Event]]) -> list[str]:
    """What the step gives for micro-batches, whatever its order within each."""
    found = []
    for batch in batches:
        pipeline.read(batch)
        found.append(sorted(map(str, pipeline.results)))
    return found


@pytest.mark.slow
@pytest.mark.parametrize("name", STEPS)
def test_a_step_goes_on_with_the_state_of_another(name: str, tmp_path: Path, etl_state: Output) -> None:
    first, second = pipeline(tmp_path / "first", STEPS[name]), pipeline(tmp_path / "second", STEPS[name])
    results(first, BEFORE)

    etl_state("export", first, STEPS[name][6:].partition(",")[0], str(tmp_path / "all.state"))
    etl_state("import", second, STEPS[name][6:].partition(",")[0], str(tmp_path / "all.state"))
    shown = [sorted(etl_state("show", one, "--format", "json").splitlines()) for one in (first, second)]
    second.resume()

    assert shown[0] == shown[1]
    assert shown[0]
    expected = results(first, AFTER)
    assert results(second, AFTER) == expected
    assert any(expected)


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name in STEPS if name not in {"dedupe", "throttle"}])
def test_keys_are_found_with_the_seed_of_another_state(name: str, tmp_path: Path, etl_state: Output) -> None:
    first, second = pipeline(tmp_path / "first", STEPS[name]), pipeline(tmp_path / "second", STEPS[name])
    results(first, BEFORE)
    assert second.manifests.seed != first.manifests.seed

    etl_state("export", first, STEPS[name][6:].partition(",")[0], str(tmp_path / "all.state"))
    etl_state("import", second, STEPS[name][6:].partition(",")[0], str(tmp_path / "all.state"))
    second.resume()

    assert results(second, AFTER) == results(first, AFTER)


def test_hashes_of_keys_are_refused_by_a_state_with_another_seed(tmp_path: Path, etl_state: Output) -> None:
    first, second = pipeline(tmp_path / "first", DEDUPE), pipeline(tmp_path / "second", DEDUPE)
    results(first, BEFORE)
    results(second, BEFORE)
    etl_state("drop", second, "dedupe", "--yes")

    etl_state("export", first, "dedupe", str(tmp_path / "all.state"))
    etl_state("import", second, "dedupe", str(tmp_path / "all.state"), status=1)

    assert "has hashes of keys that this state cannot find" in " ".join(etl_state.err.split())
    assert etl_state.rows("show", second) == []


def test_exported_state_is_only_for_its_user_and_leaves_out_what_is_over(tmp_path: Path, etl_state: Output) -> None:
    window = pipeline(tmp_path / "first", WINDOW)
    window.read([("a", 1, "x"), ("b", 70, "x")])
    window.read([("b", 100, "x"), ("b", 101, "x")])
    target = tmp_path / "all.state"

    etl_state("export", window, "window", str(target))

    assert etl_state.err == f"1 row in {target}\n"
    assert stat.S_IMODE(target.stat().st_mode) == 0o600


def test_windows_that_are_over_in_the_other_state_are_too_late(tmp_path: Path, etl_state: Output) -> None:
    first, second = pipeline(tmp_path / "first", WINDOW), pipeline(tmp_path / "second", WINDOW)
    first.read([("a", 1, "x"), ("b", 70, "x")])
    second.read([("c", 100, "x")])
    etl_state("drop", second, "window", "--yes")

    etl_state("export", first, "window", str(tmp_path / "all.state"))
    etl_state("import", second, "window", str(tmp_path / "all.state"))

    assert etl_state.err == f"steps[1] window remembers 1 rows of {tmp_path / 'all.state'}; 1 were too late\n"
    assert failures(etl_state.rows("show", second)) == [("01:00", "b", 1, 1)]


def test_a_step_that_remembers_something_is_not_overwritten(tmp_path: Path, etl_state: Output) -> None:
    first, second = pipeline(tmp_path / "first", WINDOW), pipeline(tmp_path / "second", WINDOW)
    first.read([("a", 1, "x")])
    second.read([("c", 2, "x")])

    etl_state("export", first, "window", str(tmp_path / "all.state"))
    etl_state("import", second, "window", str(tmp_path / "all.state"), status=1)

    assert "remembers 1 rows already" in etl_state.err
    assert failures(etl_state.rows("show", second)) == [("00:00", "c", 1, 1)]


def test_another_step_is_refused_with_what_differs(tmp_path: Path, etl_state: Output) -> None:
    first, second = pipeline(tmp_path / "first", WINDOW), pipeline(tmp_path / "second", WINDOW.replace("1m", "2m"))
    first.read([("a", 1, "x")])

    etl_state("export", first, "window", str(tmp_path / "all.state"))
    etl_state("import", second, "window", str(tmp_path / "all.state"), status=1)

    assert "does not fit steps[1] window: size was " in " ".join(etl_state.err.split())


def test_files_that_are_not_an_export_are_refused(tmp_path: Path, etl_state: Output) -> None:
    window = pipeline(tmp_path / "first", WINDOW)
    window.read([("a", 1, "x")])
    [rows] = window.manifests.folder.glob("rows-*")
    foreign = {"own": rows.read_bytes(), "cut": rows.read_bytes()[:-9], "text": b"at,user\n"}
    for name, content in foreign.items():
        (tmp_path / f"{name}.state").write_bytes(content)

        etl_state("import", window, "window", str(tmp_path / f"{name}.state"), status=1)

        assert "was not written by etl state export, or is damaged: export the state again" in " ".join(etl_state.err.split())
    etl_state("export", window, "window", str(tmp_path / "open.parquet"))
    etl_state("import", window, "window", str(tmp_path / "open.parquet"), status=1)
    assert "an export to a file that ends with .state can be imported" in " ".join(etl_state.err.split())


@pytest.mark.parametrize("name", ["all.state", "all.parquet"])
def test_an_export_replaces_a_file_only_if_asked_to(tmp_path: Path, etl_state: Output, name: str) -> None:
    window, target = Pipeline(tmp_path, WINDOW), tmp_path / name
    window.read([("a", 1, "x")])
    target.write_text("mine")

    etl_state("export", window, "window", str(target), status=2)
    assert "exists already: choose another name, or replace it with --force" in " ".join(etl_state.err.split())
    assert target.read_text() == "mine"

    etl_state("export", window, "window", str(target), "--force")
    assert target.read_bytes() != b"mine"


def test_nothing_is_exported_where_nothing_is_remembered(tmp_path: Path, etl_state: Output) -> None:
    window = pipeline(tmp_path / "first", WINDOW)
    etl_state("export", window, "window", str(tmp_path / "all.state"), status=1)
    assert "remembers nothing yet" in etl_state.err
    window.read([("a", 1, "x")])
    etl_state("drop", window, "window", "--yes")

    etl_state("export", window, "window", str(tmp_path / "all.state"), status=1)
    assert "remembers nothing that is not over" in etl_state.err
    etl_state("export", window, "window", str(tmp_path / "all.csv"), status=2)
    assert "a file ends with .parquet or .state, not with '.csv'" in " ".join(etl_state.err.split())
    assert not (tmp_path / "all.state").exists()
