"""A changed pipeline on the checkpoints of the last run."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from fakes import Count, Frames, Lines, Row, make_plan

from etl.api import NEVER, ComponentError, Step
from etl.plan.frames import stages
from etl.plan.query_plan import Plan
from etl.spark.state import fingerprint
from etl.spark.state.fingerprint import match_checkpoints
from etl.spark.state.folder import StateFolder
from etl.state.manifest import Manifest, Manifests, StageState, StateFileEntry
from etl.steps.keyed.dedupe import Dedupe
from etl.steps.set import Set
from etl.steps.window import Window


class Others(Lines):
    """Another type of source."""

    type: str = "others"


def counting(count: Count, *before: Row) -> Plan:
    return make_plan({"src": Lines()}, {"s": ("src", [Row(adds="t"), *before, count])}, {"out": "s"})


def names(plan: Plan) -> list[str]:
    return [query.name for query in plan.queries]


@pytest.fixture
def state(tmp_path: Path) -> StateFolder:
    return StateFolder(tmp_path)


def test_an_unchanged_pipeline_fits_without_notes(state: StateFolder) -> None:
    match_checkpoints(counting(Count()), state)

    assert match_checkpoints(counting(Count()), state)[1] == []


@pytest.mark.parametrize("text", ["[]", "7", '{"main": []}', '{"main": {"sources": null}}', "{"])
def test_the_error_for_damaged_fingerprints_names_the_file(state: StateFolder, text: str) -> None:
    (state.root / "plan.json").write_text(text)

    with pytest.raises(ComponentError, match=r"plan.json cannot be read \(.*\); restore it from a backup, or remove the state"):
        match_checkpoints(counting(Count()), state)


def test_an_option_that_the_state_depends_on_may_not_change(state: StateFolder) -> None:
    match_checkpoints(counting(Count()), state)

    with pytest.raises(ComponentError, match="step count 1: size was 60 and is 90 now"):
        match_checkpoints(counting(Count(size=90)), state)


def test_an_option_that_the_state_does_not_depend_on_may_change(state: StateFolder) -> None:
    match_checkpoints(counting(Count()), state)

    assert match_checkpoints(counting(Count(having="n > 3")), state)[1] == []


def test_a_window_with_a_further_step_before_it_keeps_its_checkpoint(state: StateFolder) -> None:
    before, _ = match_checkpoints(counting(Count()), state)

    after, notes = match_checkpoints(counting(Count(), Row()), state)

    assert names(after) == names(before) == ["s-count"]
    assert notes == []


def test_a_refused_change_is_not_stored(state: StateFolder) -> None:
    match_checkpoints(counting(Count()), state)
    with pytest.raises(ComponentError):
        match_checkpoints(counting(Count(size=90)), state)

    assert match_checkpoints(counting(Count()), state)[1] == []


def test_a_query_that_gains_a_source_continues_from_its_checkpoint(state: StateFolder) -> None:
    match_checkpoints(make_plan({"a": Lines()}, {}, {"out": "a"}), state)

    plan, notes = match_checkpoints(make_plan({"a": Lines(), "b": Lines()}, {}, {"out": "a b"}), state)

    assert names(plan) == ["a"]
    assert notes == ["query 'a' has gained 'b', which it reads from the start"]


def test_two_checkpoints_cannot_be_merged(state: StateFolder) -> None:
    match_checkpoints(make_plan({"a": Lines(), "b": Lines()}, {}, {"x": "a", "y": "b"}), state)

    with pytest.raises(ComponentError, match="its sources were read by 'a', 'b', with a checkpoint each"):
        match_checkpoints(make_plan({"a": Lines(), "b": Lines()}, {}, {"x": "a b"}), state)


def test_one_checkpoint_cannot_be_split(state: StateFolder) -> None:
    match_checkpoints(make_plan({"a": Lines(), "b": Lines()}, {}, {"x": "a b"}), state)

    with pytest.raises(ComponentError, match="with a checkpoint each"):
        match_checkpoints(make_plan({"a": Lines(), "b": Lines()}, {}, {"x": "a", "y": "b"}), state)


def test_a_source_of_another_type_is_refused(state: StateFolder) -> None:
    match_checkpoints(make_plan({"a": Lines()}, {}, {"x": "a"}), state)

    with pytest.raises(ComponentError, match="source 'a' was of type lines and is others now"):
        match_checkpoints(make_plan({"a": Others()}, {}, {"x": "a"}), state)


def test_a_renamed_source_is_noted(state: StateFolder) -> None:
    match_checkpoints(make_plan({"a": Lines()}, {}, {"x": "a"}), state)

    _, notes = match_checkpoints(make_plan({"b": Lines()}, {}, {"x": "b"}), state)

    assert notes == [
        "query 'b' is new: it begins at its sources' start",
        "no query continues from the checkpoint of 'a', which is kept",
    ]


def test_two_queries_do_not_go_on_with_one_checkpoint(state: StateFolder) -> None:
    def plan(expression: str) -> Plan:
        steps = {name: ("src", [Row(), Set.model_validate({"type": "set", "fields": {"x": expression}})]) for name in "ab"}
        return make_plan({"src": Lines()}, steps, {"one": "a", "two": "b"})

    match_checkpoints(plan("1"), state)
    for name in ("one", "two"):
        state.sink(name).mkdir(parents=True)

    after, _ = match_checkpoints(plan("hash(1)"), state)

    assert names(after) == ["a-set", "b-set"]


# ── The state lane ────────────────────────────────────────────────────────────────────────────────


def windowed(**options: Any) -> Plan:
    step = {"time": "t", "size": "1m", "aggregates": {"n": "count(*)"}, **options}
    return make_plan({"src": Lines()}, {"s": ("src", [Row(adds="t"), Window.model_validate(step)])}, {"out": "s"})


def test_what_a_window_gives_may_change_and_keeps_its_state(state: StateFolder) -> None:
    match_checkpoints(windowed(), state)

    assert match_checkpoints(windowed(having="n > 3", late="1h", idle="5m", emit="on_change"), state)[1] == []


def followed(plan: Plan, **options: str) -> Plan:
    """The window of a plan, and a step that passes one of its results."""
    [node] = [stage.node for stage in stages(plan.queries[0].frame)]
    dedupe = Dedupe.model_validate({"keys": ["n"], "time": "window_start", **options})
    return make_plan({"src": Lines()}, {"s": ("src", [Row(adds="t"), node.step, dedupe])}, {"out": "s"})


def late(**options: str) -> Plan:
    return windowed(emit=["on_close", {"late": {"for": "1h", **options}}])


def test_late_results_that_wait_for_an_interval_refuse_another_one(state: StateFolder) -> None:
    match_checkpoints(late(every="30s", **{"as": "separate"}), state)

    for other, now in (
        (late(), "at once"),
        (late(every="10s", **{"as": "separate"}), "every 10s, separate"),
        (late(every="30s"), "every 30s, corrected"),
    ):
        message = f"step window 1: late results were given every 30s, separate and are given {now} now: those that wait would be"
        with pytest.raises(ComponentError, match=message):
            match_checkpoints(other, state)


def test_late_results_come_and_go_and_may_begin_to_wait(state: StateFolder) -> None:
    for plan in (windowed(), late(), late(**{"as": "separate"}), late(every="30s"), windowed(), late(every="10s")):
        assert match_checkpoints(plan, state)[1] == []


def test_aggregates_come_with_a_note_and_go(state: StateFolder) -> None:
    match_checkpoints(windowed(), state)

    _, notes = match_checkpoints(windowed(aggregates={"n": "count(*)", "most": "max(t)"}), state)
    match_checkpoints(windowed(aggregates={"most": "max(t)"}), state)

    assert notes == ["query 's-window' keeps its state; 'most' is counted from here on, also in windows that are open"]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"size": "5m"}, "step window 1: size was '1m' and is '5m' now"),
        ({"slide": "30s"}, "step window 1: there was no slide, and it is '30s' now"),
        ({"aggregates": {"n": "max(t)"}}, r"step window 1: aggregate n was 'count\(\*\)' and is 'max\(t\) of t [^']+' now"),
    ],
)
def test_what_a_window_remembers_may_not_change(state: StateFolder, options: dict[str, Any], message: str) -> None:
    match_checkpoints(windowed(), state)

    with pytest.raises(ComponentError, match=message):
        match_checkpoints(windowed(**options), state)


def test_a_window_whose_state_spark_kept_is_refused(state: StateFolder) -> None:
    match_checkpoints(counting(Count()), state)
    known = json.loads((state.root / "plan.json").read_text())
    (state.root / "plan.json").write_text(json.dumps({"s-window": known["s-count"]}))

    with pytest.raises(ComponentError, match=r"its state is in files of its own now, and was in Spark's checkpoint"):
        match_checkpoints(windowed(), state)


def united(names: str, step: Step, streams: bool = True) -> Plan:
    """A stateful step over sources that Spark reads, named by one letter, and ``ours``."""
    sources = {name: Lines() if name == "ours" else Frames(streams=streams) for name in names.split()}
    return make_plan(sources, {"s": (names, [Set(fields={"t": "to_timestamp(message)"}), step])}, {"out": "s"})


@pytest.mark.parametrize("step", [Window.model_validate({"size": "1m", "time": "t", "aggregates": {"n": "count(*)"}}), Count()])
@pytest.mark.parametrize(
    ("names", "now"),
    [
        ("b a ours", "'b', 'a', other sources"),
        ("a c ours", "'a', 'c', other sources"),
        ("a b", "'a', 'b'"),
        ("a b c ours", "'a', 'b', 'c', other sources"),
    ],
)
def test_sources_that_spark_reads_keep_their_places(state: StateFolder, step: Step, names: str, now: str) -> None:
    before = united("a b ours", step)
    match_checkpoints(before, state)
    assert match_checkpoints(before, state)[1] == []
    message = f"Spark read 'a', 'b', other sources, and is to read {now}: it knows offsets by the order"

    with pytest.raises(ComponentError, match=f"{message}|it had 3 streaming inputs and has"):
        match_checkpoints(united(names, step), state)


def test_a_checkpoint_of_a_release_without_the_order_of_sources_is_continued(state: StateFolder) -> None:
    step = Window.model_validate({"size": "1m", "time": "t", "aggregates": {"n": "count(*)"}})
    match_checkpoints(united("a b", step), state)
    known = json.loads((state.root / "plan.json").read_text())
    for one in known.values():
        del one["inputs"]
    (state.root / "plan.json").write_text(json.dumps(known))

    assert match_checkpoints(united("b a", step), state)[1] == []


def window(aggregates: dict[str, str], *before: Step) -> Plan:
    options = {"size": "1m", "group_by": ["host"], "aggregates": aggregates}
    return make_plan(
        {"src": Lines()}, {"s": ("src", [Set(fields={"host": "'h'"}), *before, Window.model_validate(options)])}, {"out": "s"}
    )


def test_another_aggregate_cannot_take_the_name_of_one_that_is_gone(state: StateFolder) -> None:
    match_checkpoints(window({"n": "count(*)", "m": "max(host)"}), state)
    match_checkpoints(window({"n": "count(*)"}), state)
    match_checkpoints(window({"n": "count(*)"}), state)

    with pytest.raises(ComponentError, match=r"aggregate m was 'max\(host\) of host string' and is 'count\(host\)"):
        match_checkpoints(window({"n": "count(*)", "m": "count(host)"}), state)

    assert len(match_checkpoints(window({"n": "count(*)", "m": "max(host)"}), state)[1]) == 1


def test_an_aggregate_of_a_field_that_has_another_type_is_refused(state: StateFolder) -> None:
    match_checkpoints(window({"m": "max(x)"}, Set(fields={"x": "cast(host as bigint)"})), state)

    with pytest.raises(ComponentError, match=r"aggregate m was 'max\(x\) of x bigint' and is 'max\(x\) of x double' now"):
        match_checkpoints(window({"m": "max(x)"}, Set(fields={"x": "cast(host as double)"})), state)


def steps(*options: dict[str, Any]) -> Plan:
    """A plan with windows one after another."""
    times = ["t", *["window_start"] * (len(options) - 1)]
    made_of = [
        {"time": time, "size": "1m", "aggregates": {"n": "count(*)"}, **one} for time, one in zip(times, options, strict=True)
    ]
    return make_plan({"src": Lines()}, {"s": ("src", [Row(adds="t"), *map(Window.model_validate, made_of)])}, {"out": "s"})


def stored(state: StateFolder, plan: Plan, *watermarks: int) -> Manifests:
    """State after micro-batch 4, with a file for each step, named after its number."""
    query = match_checkpoints(plan, state)[0].queries[0].name
    manifests = Manifests(state.rows(query))
    stages = []
    for number, watermark in enumerate(watermarks):
        manifests.folder.mkdir(parents=True, exist_ok=True)
        (manifests.folder / f"rows-{number}").touch()
        stages.append(StageState(watermark, (StateFileEntry(f"rows-{number}", 0, 0, 1, 1, 0),)))
    manifests.write(4, Manifest(99, tuple(stages), 2))
    commits = state.checkpoint(query) / "commits"
    commits.mkdir(parents=True)
    (commits / "4").touch()
    return manifests


def files(manifests: Manifests) -> list[list[str]]:
    return [[file.name for file in stage.files] for stage in manifests.read(4).stages]


def test_a_refused_change_of_a_step_names_the_option_that_empties_its_state(state: StateFolder) -> None:
    stored(state, steps({}, {}), 70, 60)

    with pytest.raises(ComponentError, match=r"or run it once with --new-state 's-window-2/s\[2\] window', which empties"):
        match_checkpoints(steps({}, {"size": "5m"}), state)


def test_a_named_step_begins_with_empty_state_and_the_others_keep_theirs(state: StateFolder) -> None:
    manifests, changed = stored(state, steps({}, {}), 70, 60), steps({}, {"size": "5m"})

    _, notes = match_checkpoints(changed, state, ["s[2] window"])

    assert notes == ["step 's[2] window' begins with empty state; other steps keep theirs"]
    assert files(manifests) == [["rows-0"], []]
    assert [stage.watermark for stage in manifests.read(4).stages] == [70, 60]
    assert (manifests.read(4).event_time, manifests.read(4).parallelism) == (99, 2)
    assert match_checkpoints(changed, state)[1] == []
    assert files(manifests) == [["rows-0"], []]


def test_a_further_step_begins_with_empty_state(state: StateFolder) -> None:
    window = Window.model_validate({"time": "t", "size": "1m", "aggregates": {"n": "count(*)"}})
    dedupe = Dedupe.model_validate({"keys": ["t"], "time": "t", "within": "1h"})
    manifests = stored(state, windowed(), 70)
    further = make_plan({"src": Lines()}, {"s": ("src", [Row(adds="t"), dedupe, window])}, {"out": "s"})

    with pytest.raises(ComponentError, match=r"it had 1 stateful step and has 2 now\n.*--new-state 's-window/s\[1\] dedupe'"):
        match_checkpoints(further, state)
    match_checkpoints(further, state, ["dedupe"])

    assert files(manifests) == [[], ["rows-0"]]
    assert [stage.watermark for stage in manifests.read(4).stages] == [NEVER, 70]
    match_checkpoints(further, state)
    with pytest.raises(ComponentError, match="it had 2 stateful steps and has 1 now"):
        match_checkpoints(windowed(), state)


def test_a_further_step_at_the_end_continues_the_query_that_was_called_after_the_one_before(state: StateFolder) -> None:
    manifests = stored(state, windowed(), 70)
    further, without = followed(windowed(), within="1h"), windowed()

    with pytest.raises(ComponentError, match=r"s-window: it had 1 stateful step and .*\n.*--new-state 's-window/s\[2\] dedupe'"):
        match_checkpoints(further, state)
    plan, notes = match_checkpoints(further, state, ["dedupe"])

    assert [query.name for query in plan.queries] == ["s-window"]
    assert notes == ["step 's[2] dedupe' begins with empty state; other steps keep theirs"]
    assert files(manifests) == [["rows-0"], []]
    assert match_checkpoints(further, state)[1] == []
    with pytest.raises(ComponentError, match="step dedupe 2: within was '1h' and is '2h' now"):
        match_checkpoints(followed(windowed(), within="2h"), state)
    with pytest.raises(ComponentError, match="it had 2 stateful steps and has 1 now"):
        match_checkpoints(without, state)


def deduped(**options: Any) -> Plan:
    """A dedupe before a window."""
    window = Window.model_validate({"time": "t", "size": "1m", "aggregates": {"n": "count(*)"}})
    dedupe = Dedupe.model_validate({"keys": ["t"], "time": "t", "within": "1h", **options})
    return make_plan({"src": Lines()}, {"s": ("src", [Row(adds="t"), dedupe, window])}, {"out": "s"})


def test_the_state_of_a_step_that_is_gone_is_dropped_and_the_others_keep_theirs(state: StateFolder) -> None:
    manifests, without = stored(state, deduped(), 70, 60), windowed()

    with pytest.raises(
        ComponentError, match=r"had 2 stateful steps and has 1 now\n.* run it once with --new-state 's-window/dedupe 1'"
    ):
        match_checkpoints(without, state)
    _, notes = match_checkpoints(without, state, ["dedupe"])

    assert notes == ["the state of step 's-window/dedupe 1', which is gone, is dropped; other steps keep theirs"]
    assert files(manifests) == [["rows-1"]]
    assert [stage.watermark for stage in manifests.read(4).stages] == [60]
    assert not (manifests.folder / "rows-0").exists()
    assert match_checkpoints(without, state)[1] == []
    assert files(manifests) == [["rows-1"]]


@pytest.mark.parametrize(("remaining", "kept"), [([{}, {"size": "5m"}], [0, 1]), ([{}], [0])])
def test_steps_at_the_end_may_be_gone(state: StateFolder, remaining: list[dict[str, Any]], kept: list[int]) -> None:
    manifests = stored(state, steps({}, {"size": "5m"}, {"size": "1h"}), 70, 60, 50)
    gone = [f"window {number + 1}" for number in range(3) if number not in kept]

    _, notes = match_checkpoints(steps(*remaining), state, gone)

    assert len(notes) == len(gone)
    assert files(manifests) == [[f"rows-{number}"] for number in kept]


def test_of_a_step_that_takes_the_place_of_one_that_is_gone_both_are_named(state: StateFolder) -> None:
    manifests, changed = stored(state, steps({}, {"size": "5m"}, {"size": "1h"}), 70, 60, 50), steps({}, {"size": "1d"})

    with pytest.raises(ComponentError, match=r"--new-state 's-window-3/s\[2\] window' --new-state 's-window-3/window 2' --new"):
        match_checkpoints(changed, state)
    match_checkpoints(changed, state, ["s[2] window", "window 2", "window 3"])

    assert files(manifests) == [["rows-0"], []]


@pytest.mark.parametrize("killed", ["before the manifest", "after the manifest"])
def test_a_change_of_steps_that_was_killed_is_made_once(state: StateFolder, monkeypatch: pytest.MonkeyPatch, killed: str) -> None:
    manifests, without = stored(state, deduped(), 70, 60), windowed()
    with monkeypatch.context() as patch:
        change = fingerprint.write_step_changes

        def kill(*arguments: Any) -> None:
            if killed == "after the manifest":
                change(*arguments)
            raise KeyboardInterrupt

        patch.setattr(fingerprint, "write_step_changes", kill)
        with pytest.raises(KeyboardInterrupt):
            match_checkpoints(without, state, ["dedupe"])

    with pytest.raises(ComponentError, match="it had 1 stateful step and has 2 now"):
        match_checkpoints(deduped(), state)
    assert match_checkpoints(without, state)[1] == []

    assert files(manifests) == [["rows-1"]]


def test_a_step_that_is_gone_is_named_with_its_number_among_others_of_its_type(state: StateFolder) -> None:
    stored(state, steps({}, {"size": "5m"}), 70, 60)

    with pytest.raises(ComponentError, match="no step with state is called 'window 3'; "):
        match_checkpoints(steps({}), state, ["window 3"])


def test_a_query_whose_only_step_with_state_is_gone_keeps_its_offsets(state: StateFolder) -> None:
    manifests = stored(state, windowed(), 70)
    state.sink("out").mkdir(parents=True)
    without = make_plan({"src": Lines()}, {"s": ("src", [Row(adds="t")])}, {"out": "s"})

    with pytest.raises(
        ComponentError, match=r"had 1 stateful step and has none now\n.* run it once with --new-state 's-window/window 1'"
    ):
        match_checkpoints(without, state)
    plan, notes = match_checkpoints(without, state, ["window"])

    assert [query.name for query in plan.queries] == ["s-window"]
    assert notes == ["the state of step 's-window/window 1', which is gone, is dropped; other steps keep theirs"]
    assert files(manifests) == []
    assert match_checkpoints(without, state)[1] == []
    with pytest.raises(ComponentError, match=r"it had no stateful steps and has 1 now\n.*--new-state 's-window/s\[1\] window'"):
        match_checkpoints(windowed(), state)


@pytest.mark.parametrize("killed", ["", "before the manifest", "after the manifest"])
@pytest.mark.parametrize("later", [0, 1, 9], ids=lambda count: f"{count} micro-batches without state")
def test_a_query_that_has_lost_its_only_step_with_state_gets_one_again(
    state: StateFolder, monkeypatch: pytest.MonkeyPatch, later: int, killed: str
) -> None:
    manifests, dedupe = stored(state, windowed(), 70), Dedupe.model_validate({"keys": ["t"], "time": "t", "within": "1h"})
    state.sink("out").mkdir(parents=True)
    match_checkpoints(make_plan({"src": Lines()}, {"s": ("src", [Row(adds="t")])}, {"out": "s"}), state, ["window"])
    (state.query("s-window") / "clock.json").write_text('{"event_time": 70}')
    for number in range(5, 5 + later):
        (state.checkpoint("s-window") / "commits" / str(number)).touch()
    again = make_plan({"src": Lines()}, {"s": ("src", [Row(adds="t"), dedupe])}, {"out": "s"})
    if killed:
        _kill_change(monkeypatch, again, state, killed)

    plan, notes = match_checkpoints(again, state, [] if killed else ["dedupe"])

    assert [query.name for query in plan.queries] == ["s-window"]
    assert notes == ([] if killed else ["step 's[1] dedupe' begins with empty state; sources keep their offsets"])
    assert manifests.versions() == [4 + later]
    assert manifests.read(4 + later) == Manifest(stages=(StageState(),))
    assert not (state.query("s-window") / "clock.json").exists()
    assert match_checkpoints(again, state)[1] == []


def _kill_change(monkeypatch: pytest.MonkeyPatch, plan: Plan, state: StateFolder, killed: str) -> None:
    """A run that is killed before or after it changes the state."""
    change = fingerprint.write_step_changes

    def kill(*arguments: Any) -> None:
        if killed == "after the manifest":
            change(*arguments)
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(fingerprint, "write_step_changes", kill)
        with pytest.raises(KeyboardInterrupt):
            match_checkpoints(plan, state, ["dedupe"])


def test_another_stream_or_another_first_step_is_another_query(state: StateFolder) -> None:
    stored(state, windowed(), 70)

    _, notes = match_checkpoints(followed(windowed(size="5m"), within="1h"), state)

    assert notes[0] == "query 's-dedupe' is new: it begins at its sources' start"


def test_an_event_time_of_another_field_begins_anew(state: StateFolder) -> None:
    manifests = stored(state, windowed(), 70)

    match_checkpoints(windowed(time="u"), state, ["window"])

    assert manifests.read(4) == Manifest(NEVER, (StageState(),), 2)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("windw", "--new-state: no step with state is called 'windw'; did you mean 'window'?"),
        ("s", "--new-state: several steps are called 's'; steps with state are 's-window-2/s\\[1\\] window', "),
    ],
)
def test_a_name_that_is_not_that_of_one_step(name: str, message: str, state: StateFolder) -> None:
    manifests = stored(state, steps({}, {}), 70, 60)

    with pytest.raises(ComponentError, match=message):
        match_checkpoints(steps({}, {}), state, [name])

    assert files(manifests) == [["rows-0"], ["rows-1"]]
