"""Which format of the parser `timestamp` reads the times of a column."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import pyarrow as pa

from etl.api import Parser
from etl.catalogue import installed
from etl.inference.times import TimeForm

MIN_READ_SHARE = 0.98
"""The share of texts that the parser must read; less is not a time."""
MAX_TRIED = 500


def choose_format(form: TimeForm, values: Sequence[str]) -> str | None:
    """The format that reads the values; of several the one by which they rise, as the times of a log do."""
    texts = list(values[:: max(1, len(values) // MAX_TRIED)])
    found = [
        (rising, -number, text)
        for number, text in enumerate(form.formats)
        if (rising := _ascending_share(text, texts)) is not None
    ]
    return max(found)[2] if found else None


def is_ambiguous(form: TimeForm, values: Sequence[str]) -> bool:
    """Whether several formats read all values, and the values do not decide."""
    texts = list(values[:: max(1, len(values) // MAX_TRIED)])
    found = [rising for text in form.formats if (rising := _ascending_share(text, texts)) is not None]
    return len(found) > 1 and sorted(found)[-1] == sorted(found)[-2]


def _ascending_share(format_: str, texts: Sequence[str]) -> float | None:
    """The share of steps from a text to the next that do not go back; None where the format does not read them."""
    parser = installed().families["step"]["timestamp"].model_validate({"formats": [format_]})
    assert isinstance(parser, Parser)
    parsed = parser.compile()(pa.array(texts, pa.string()))
    times = parsed.columns["timestamp"].drop_null().to_pylist()
    if len(times) < MIN_READ_SHARE * len(texts) or not times:
        return None
    steps = list(pairwise(times))
    return sum(1 for one, other in steps if other >= one) / len(steps) if steps else 1.0
