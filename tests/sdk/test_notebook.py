"""What a notebook shows: tables and pictures, with all texts escaped."""

from __future__ import annotations

import sys
import xml.etree.ElementTree as ElementTree
from types import SimpleNamespace
from typing import Any

import pytest

from etl.sdk import Pipeline, pipeline, read, union
from etl.sdk.events import Events
from etl.sdk.graph import picture

EVIL = "<script>alert('x')</script>&\x00\u202e"


def test_a_picture_has_a_box_for_each_part_and_an_edge_for_each_input() -> None:
    first, second = read.file("a").named("a"), read.file("b").named("b")
    both = union(first, second).grok("%{IP:ip}").timestamp(field="t").named("both")

    svg = pipeline("p", both.to_discard().named("all"), both.filter("true").to_console().named("some")).graph().svg

    root = ElementTree.fromstring(svg)
    tag = "{http://www.w3.org/2000/svg}"
    texts = [text.text for text in root.iter(f"{tag}text")]
    assert texts == [
        "a",
        "file",
        "b",
        "file",
        "both",
        "grok",
        "timestamp",
        "filter",
        "filter",
        "all",
        "discard",
        "some",
        "console",
    ]
    assert len(list(root.iter(f"{tag}path"))) == 5
    tops = {(rect.get("x"), rect.get("y")) for rect in root.iter(f"{tag}rect")}
    assert len(tops) == len(list(root.iter(f"{tag}rect"))) == 6


def test_texts_of_the_user_are_escaped() -> None:
    value = {"sources": {EVIL: {"type": EVIL}}, "streams": {"s": {"from": EVIL, "steps": [{"type": EVIL}]}}}

    svg = picture(value, {EVIL: EVIL}).svg()
    table = Events([{EVIL: EVIL}], [EVIL], EVIL)._repr_html_()

    for shown in (svg, table):
        assert "<script" not in shown
        assert "&lt;script&gt;" in shown
        assert "\x00" not in shown
        assert "\u202e" not in svg


def test_a_picture_of_a_broken_pipeline_is_drawn_too() -> None:
    cyclic = {"sources": {"a": {"type": "file"}}, "streams": {"x": {"from": "y"}, "y": {"from": ["x", "a"]}}, "sinks": {}}

    assert picture(cyclic).svg().count("<rect") == 3


def test_what_a_notebook_shows_of_a_pipeline_with_two_parts_of_one_name_is_the_problem() -> None:
    twice = pipeline("p", union(read.file("a").named("x"), read.file("b").named("x")).to_discard())

    assert "two parts are named &#x27;x&#x27;" in twice._repr_html_()


def test_a_pipeline_without_names_is_drawn_in_its_short_form() -> None:
    svg = Pipeline.from_yaml("source: {type: file, path: a}\nsteps: [{type: filter, where: 'true'}]\n")._repr_html_()

    assert [name in svg for name in (">main<", ">steps<", ">filter<")] == [True, True, True]


def test_a_table_is_cut_and_says_so() -> None:
    rows = Events([{"n": number, "text": "x" * 100} for number in range(60)], ["n", "text", "gone"])

    assert str(rows).splitlines()[0].split() == ["n", "text", "gone"]
    assert str(rows).splitlines()[-1] == "… 10 more"
    assert rows._repr_html_().count("<tr>") == 51
    assert rows[1:3] == [{"n": 1, "text": "x" * 100}, {"n": 2, "text": "x" * 100}]
    assert str(Events([], ["a", "b"])) == "no events (a, b)"


def test_show_is_html_in_a_notebook(monkeypatch: pytest.MonkeyPatch) -> None:
    shown: list[Any] = []
    shell = SimpleNamespace(config={"IPKernelApp": {}})
    monkeypatch.setitem(sys.modules, "IPython", SimpleNamespace(get_ipython=lambda: shell))  # type: ignore[arg-type]
    monkeypatch.setitem(sys.modules, "IPython.display", SimpleNamespace(display=shown.append))  # type: ignore[arg-type]

    read.file("a").show(events=["one", "two", "three"], n=2)

    assert "<td>two</td>" in shown[0]._repr_html_()
    assert "three" not in shown[0]._repr_html_()
