"""A JVM that was killed while it wrote the first offsets of a query."""

from __future__ import annotations

import pytest
from running import Engine, Etl

pytestmark = pytest.mark.spark


def test_a_query_starts_where_the_temporary_file_of_its_first_offsets_is_left(engine: Engine, etl: Etl) -> None:
    (etl.folder / "in.log").write_text("a\nb\n")
    pipeline = """
        source: {type: file, path: "{here}/in.log"}
        steps: []
        sink: {type: file, path: "{here}/out.json"}
    """
    engine(pipeline)
    [offsets] = etl.folder.glob("**/checkpoint/offsets")
    for log in (offsets, offsets.parent / "commits"):
        for file in log.iterdir():
            file.unlink()
    (offsets / ".0.1b9d6bcd-bbfd-4b2d-9b5d-ab8dfbbd4bed.tmp").write_text("v1\n")

    engine(pipeline)

    assert (offsets.parent / "commits" / "0").exists()
    assert (etl.folder / "out.json").read_text() == '{"message":"a"}\n{"message":"b"}\n'
