"""Rules that change while a stream runs: in force within two micro-batches, no event lost or repeated."""

from __future__ import annotations

import pytest
from running import Engine, wait_for
from streaming import own, publish, streaming

pytestmark = [pytest.mark.spark, pytest.mark.slow]

PIPELINE = """
    name: hot
    source: {type: file, path: "{here}/in.log"}
    steps:
      - {type: regex, patterns: ['^(?<n>[0-9]+) (?<process>\\S+)$']}
      - {type: rules, files: ["{here}/rules/**/*.yml"], output: annotate}
    sink: {type: file, path: "{here}/out.jsonl"}
    run: {trigger: 100ms}
"""


def test_rules_are_published_into_a_running_stream(engine: Engine) -> None:
    # given
    rules = engine.etl.folder / "rules"
    publish(rules / "a.yml", own("first"))
    with streaming(engine, PIPELINE) as stream:
        names, first = stream.now()
        assert (names, len(first)) == (["first"], 1)

        # when a rule is added, then
        publish(rules / "b.yml", own("second"))
        names, second = stream.soon()
        assert names == ["first", "second"]
        assert second != first

        # when one is changed, then
        publish(rules / "a.yml", own("first", "process = 'bash'"))
        names, third = stream.soon()
        assert names == ["second"]
        assert third not in (first, second)

        # when a file becomes bad, then its old rules stay, under their version
        publish(rules / "b.yml", own("second").replace("where", "wear"))
        assert stream.soon() == (["second"], third)
        wait_for(lambda: "stay as they were" in "".join(stream.output), what="the word about the bad file")

        # when it is mended, and another is removed, then
        publish(rules / "b.yml", own("third"))
        assert stream.soon()[0] == ["third"]
        (rules / "b.yml").unlink()
        assert stream.soon() == ([], set())

    # then
    assert sorted(stream.delivered()) == list(range(stream.total()))
    bad = [line for line in stream.output if "stay as they were" in line]
    assert f"{rules}/b.yml:1: 'second': " in bad[0]
