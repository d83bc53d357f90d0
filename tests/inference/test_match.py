"""Which recipe and parser reads a sample, and into what."""

from __future__ import annotations

import gzip
import json
import random
from pathlib import Path

import pytest
from running import ROOT

from etl.api import EtlError
from etl.config import load
from etl.config.model import Pipeline
from etl.inference.candidates import recipe_candidate, row_wise
from etl.inference.fields import FoundField, fields_block, find_fields, percent, type_of
from etl.inference.match import Match
from etl.inference.pipeline_file import pipeline_text
from etl.inference.sample import open_sample
from etl.inference.search import find_matches
from etl.resources import recipes

LOG = ROOT / "samples" / "ssh-auth.log"


def matches_of(path: Path) -> list[Match]:
    with open_sample(path) as sample:
        return find_matches(sample)


def by_name(path: Path) -> dict[str, Match]:
    return {one.candidate.name: one for one in matches_of(path)}


@pytest.fixture
def objects(tmp_path: Path) -> Path:
    rows = [{"ts": f"2026-01-01T00:00:0{n}Z", "n": n, "user": {"name": "x"}, **({"f": n / 2} if n % 2 else {})} for n in range(4)]
    path = tmp_path / "app.json"
    path.write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    return path


def test_recipes_count_what_they_are_for_and_pass_over_the_rest() -> None:
    one = by_name(LOG)["ssh-failed-logins"]

    assert (one.events, one.read, one.rejected) == (455, 138, 0)
    assert one.filled >= 6
    assert one.example()["user_name"]


def test_a_compressed_file_is_read_alike(tmp_path: Path) -> None:
    path = tmp_path / "auth.log.gz"
    path.write_bytes(gzip.compress(LOG.read_bytes()))

    assert by_name(path)["ssh-failed-logins"].read == 138


@pytest.mark.slow
def test_json_wins_on_json_and_gives_its_members_with_types(objects: Path) -> None:
    best = matches_of(objects)[0]

    assert (best.candidate.name, best.rate) == ("json", 1.0)
    assert find_fields(best) == [
        FoundField("ts", "timestamp", 0.0),
        FoundField("n", "bigint", 0.0),
        FoundField("user.name", "string", 0.0),
        FoundField("f", "double", 0.5),
    ]


def test_the_pipeline_for_a_parser_is_sound_and_declares_what_was_found(objects: Path, tmp_path: Path) -> None:
    path = tmp_path / "app.yaml"
    path.write_text(pipeline_text(matches_of(objects)[0], objects))

    pipeline = load(path)

    assert getattr(pipeline.sources["main"], "path", None) == str(objects)
    parsed = pipeline.streams["steps"].steps[0].fields(pipeline.sources["main"].fields())
    assert {"ts", "n", "user.name", "f", "rest"} <= set(parsed.names)


def test_the_pipeline_for_a_recipe_reads_the_file_and_keeps_its_tests(tmp_path: Path) -> None:
    path = tmp_path / "ssh.yaml"
    path.write_text(pipeline_text(by_name(LOG)["ssh-failed-logins"], tmp_path / "x: #.log"))

    pipeline = load(path)

    assert getattr(pipeline.sources["auth"], "path", None) == str(tmp_path / "x: #.log")
    assert "attempts of the sample" in [case.name for case in pipeline.tests]
    assert [problem for problem in load_problems(path) if problem == "missing-file"] == []


def load_problems(path: Path) -> list[str]:
    from etl.config import check

    return [problem.code for problem in check([path])]


@pytest.mark.slow
def test_a_header_names_the_columns_of_csv(tmp_path: Path) -> None:
    (tmp_path / "x.csv").write_text('ts;level;user name\n1;warn;"b;c"\n2;info;d\n')

    best = matches_of(tmp_path / "x.csv")[0]
    pipeline = tmp_path / "x.yaml"
    pipeline.write_text(pipeline_text(best, tmp_path / "x.csv"))

    assert (best.candidate.name, best.read, best.rejected) == ("csv", 2, 0)
    assert [one.name for one in find_fields(best)] == ["ts", "level", "user_name"]
    assert load_problems(pipeline) == []
    assert [step.model_dump()["delimiter"] for step in load(pipeline).streams["steps"].steps] == [";"]


@pytest.mark.slow
def test_what_reads_anything_is_not_found(tmp_path: Path) -> None:
    path = tmp_path / "prose.txt"
    path.write_text("Call me Ishmael.\nSome years ago\n\nnever mind how long\n")

    assert [one.candidate.name for one in matches_of(path) if not one.candidate.recipe and one.rate == 1] == []


@pytest.mark.slow
@pytest.mark.parametrize("data", [b"\x00\xff\xfe\n" * 3, b"{" * 5000 + b"\n", b"a" * 3_000_000])
def test_any_bytes_are_tried(tmp_path: Path, data: bytes) -> None:
    path = tmp_path / "x.bin"
    path.write_bytes(data)

    assert all(0 <= one.rate <= 1 for one in matches_of(path))


def test_a_file_without_lines_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "x").write_bytes(b"")

    with pytest.raises(EtlError, match="no lines"), open_sample(tmp_path / "x"):
        pass
    with pytest.raises(EtlError, match="no file"), open_sample(tmp_path / "y"):
        pass


def test_recipes_that_read_lines_can_be_tried() -> None:
    names = ("ssh-failed-logins", "port-scan", "json-generic", "cri-logs", "postgresql")
    assert all(recipe_candidate(name, recipes()[name]) for name in names)


def test_streams_end_in_front_of_what_needs_spark() -> None:
    pipeline: Pipeline = load(ROOT / "pipelines" / "ssh-failed-logins.yaml")

    assert list(row_wise(pipeline)) == ["failed"]


@pytest.mark.parametrize(
    ("values", "type_"),
    [
        ([1, 2], "bigint"),
        ([1, 2.5], "double"),
        ([True], "boolean"),
        ([1, "x"], "string"),
        (["2026-01-01T00:00:00Z"], "timestamp"),
        (["2026-01-01"], "string"),
        ([[1], [2]], "array<bigint>"),
        ([[{}]], "string"),
        ([2**70], "double"),
    ],
)
def test_types_that_hold_all_values(values: list[object], type_: str) -> None:
    assert type_of(values) == type_


def test_the_block_to_paste() -> None:
    lines = list(fields_block([FoundField("a.b", "string", 0.0), FoundField("n", "decimal(10,2)", 0.25)]))

    assert lines == ["fields:", "  a.b: string         # 0 % null", '  n: "decimal(10,2)"  # 25 % null']


def test_shares_are_never_rounded_to_all_or_nothing() -> None:
    assert [percent(share) for share in (0, 0.001, 0.5, 0.999, 1)] == ["0 %", "<1 %", "50 %", ">99 %", "100 %"]


@pytest.mark.slow
@pytest.mark.parametrize("depth", [80, 900, 50_000])
def test_deep_objects_are_tried(tmp_path: Path, depth: int) -> None:
    path = tmp_path / "deep.json"
    path.write_text('{"a":' * depth + "1" + "}" * depth + "\n")

    for one in matches_of(path):
        assert find_fields(one) is not None


@pytest.mark.slow
def test_what_gives_no_field_is_no_format(tmp_path: Path) -> None:
    path = tmp_path / "noise.bin"
    path.write_bytes(random.Random(7).randbytes(50_000))

    assert matches_of(path) == []
