"""What a recipe's text and samples say of the lines it reads."""

from __future__ import annotations

from pathlib import Path

import pytest
from running import ROOT

from etl.inference.signatures import rank_by_likeness, rarity, signatures, terms
from etl.resources import recipes

RECIPE = """
sources: {log: {type: file, path: x}}
streams:
  events:
    from: log
    steps:
      - type: json
        fields: {text: string, winlog.event_id: string}
        paths: {text: log}
      - {type: set, fields: {made: "'up'"}}
tests:
  inline: {input: ["[2026] alpha"], expect: none}
  of a file: {input: {log: {file: some.log}}, expect: none}
  lost: {input: {log: {file: lost.log}}, expect: none}
"""


def test_lines_with_different_words_in_one_format_share_their_shape() -> None:
    one, other = terms("[20/Nov/2026] GET /a"), terms("[1/Dec/2025] POST /bbb")

    shapes = {term for term in one if isinstance(term, bytes)}
    assert shapes == {term for term in other if isinstance(term, bytes)}
    assert b"^[9/a" in shapes
    assert {"Nov", "GET"} <= one


def test_a_recipe_s_signature_has_its_words_its_lines_and_what_it_declares(tmp_path: Path) -> None:
    (tmp_path / "one.yaml").write_text(RECIPE)
    (tmp_path / "some.log").write_bytes(b"beta#7\n\xff\x00\n")

    (one,) = signatures({"one": tmp_path / "one.yaml"})

    assert {"winlog", "alpha", "beta", b"^[9] "} <= one.terms
    assert one.keys == {"log", "event_id"}


def test_a_file_that_is_no_recipe_is_like_nothing(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text("a: [")
    (tmp_path / "b.yaml").write_bytes(b"\xff")

    known = signatures({"a": tmp_path / "a.yaml", "b": tmp_path / "b.yaml", "c": tmp_path / "c.yaml"})

    assert set(rank_by_likeness(["x y z"], known).values()) == {0.0}
    assert rarity(known) == {}


@pytest.mark.slow
def test_the_recipe_whose_lines_look_alike_comes_first() -> None:
    lines = ["<134>Nov 21 07:00:00 edge-fw : %ASA-6-305011: Built dynamic UDP translation from inside:192.0.2.9/53211"]

    assert next(iter(rank_by_likeness(lines, signatures(recipes())))).name == "cisco-asa"


def test_any_line_has_terms() -> None:
    for line in ("", "\0", "a" * 10_000_000, "é" * 300, "\ud800", (ROOT / "samples" / "redis.log").read_text()):
        assert isinstance(terms(line), set)


@pytest.mark.slow
def test_what_one_recipe_declares_is_rarer_than_what_many_do() -> None:
    rare = rarity(signatures(recipes()))

    assert rare["stream"] == 1.0 > rare["time"] > rare["message"] > 0
