"""The state of correlations in Spark: a bucket of groups is read, processed with a micro-batch's events, and written again."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

import pyarrow as pa

from etl.rules.correlation.alerts import encode_alert
from etl.rules.correlation.bucket import Bucket
from etl.rules.correlation.columns import ROWS, unpack_rows
from etl.rules.correlation.compiled import CompiledCorrelations

if TYPE_CHECKING:
    import pandas as pd  # type: ignore[import-untyped]
    from pyspark.sql.streaming.state import GroupState


def process_bucket(compiled: CompiledCorrelations, frames: Iterable[pd.DataFrame], state: GroupState) -> Iterator[pd.DataFrame]:
    """The alerts of a bucket's groups, after a micro-batch's events or a timeout."""
    import pandas as pd

    bucket = Bucket.deserialize(state.get[0]) if state.exists else Bucket()
    watermark = state.getCurrentWatermarkMs()
    alerts = bucket.advance(compiled.families, _read_events(frames), watermark * 1000)
    if bucket.due is None:
        state.remove()
    else:
        state.update((bucket.serialize(),))
        state.setTimeoutTimestamp(max(-(-bucket.due // 1000), watermark + 1))
    if alerts:
        yield pd.DataFrame({"alert": [encode_alert(compiled, group, alert) for group, alert in alerts]})


def _read_events(frames: Iterable[pd.DataFrame]) -> pa.Table:
    types = {"event": pa.string(), "micros": pa.int64(), "offset": pa.int64()}
    found = [
        unpack_rows(*(pa.array(frame[name].to_numpy(), type_) for name, type_ in types.items())) for frame in frames if len(frame)
    ]
    return pa.concat_tables(found) if found else ROWS.empty_table()
