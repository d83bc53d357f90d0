"""Patterns by RE2 through pyarrow, JSON by Polars: ``re2_arrow.py INPUT OUTPUT CORES WORK KIND`` prints the seconds of its work.

KIND is ``re2``, the expressions of grok, or ``named``, simple ones.
"""

import json
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

os.environ["POLARS_MAX_THREADS"] = "1"

import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import shares  # type: ignore[import-not-found]

source, target, cores, file, kind = sys.argv[1:]
patterns = json.loads(Path(file).read_text())["patterns"]


def lines(block: bytes) -> Any:
    """A block cut into a column of texts."""
    return pa.csv.read_csv(
        pa.BufferReader(block),
        pa.csv.ReadOptions(column_names=["line"], use_threads=False, block_size=len(block) + 1),
        pa.csv.ParseOptions(delimiter="\x01", quote_char=False),
        pa.csv.ConvertOptions(column_types={"line": pa.string()}),
    )["line"].combine_chunks()


def events(text: Any) -> Iterator[Any]:
    """Each pattern on the rows that the earlier ones left → a table of its matches."""
    for pattern in patterns:
        found = pc.extract_regex(text, pattern[kind])
        matched = found.is_valid()
        text = text.filter(pc.invert(matched)) if len(patterns) > 1 else text
        yield pa.Table.from_arrays(found.filter(matched).flatten(), pattern["fields"])


def work(blocks: Iterator[bytes], out: Path) -> None:
    """All blocks of a share."""
    with out.open("wb") as target:
        for block in blocks:
            for table in events(lines(block)):
                pl.DataFrame(table).write_ndjson(target)


shares.run(work, source, target, int(cores))
