"""Patterns by Python's ``re``: ``re_plain.py INPUT OUTPUT CORES WORK`` prints the seconds of its work."""

import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path

import shares  # type: ignore[import-not-found]

source, target, cores, file = sys.argv[1:]
patterns = [(re.compile(p["re"], re.ASCII).search, p["fields"]) for p in json.loads(Path(file).read_text())["patterns"]]


def work(blocks: Iterator[bytes], out: Path) -> None:
    """All blocks of a share."""
    encode = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode
    with out.open("w") as target:
        for block in blocks:
            for line in block.decode().splitlines():
                for search, names in patterns:
                    if found := search(line):
                        target.write(
                            encode({name: text for name, text in zip(names, found.groups(), strict=True) if text}) + "\n"
                        )
                        break


shares.run(work, source, target, int(cores))
