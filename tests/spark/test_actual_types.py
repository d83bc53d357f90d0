"""Types that are unknown until Spark has analysed a step: steps after it are checked again before the query starts."""

import pyarrow as pa
import pytest

from etl.catalogue import installed
from etl.plan.segments import Branch, Segment, StepNode, StepPlanError
from etl.spark.partitions import with_actual_types


def _segment() -> Segment:
    step = installed().families["step"]["unnest"].model_validate({"type": "unnest", "field": "items"})
    planned = pa.schema([("items", pa.null())])
    branch = Branch((StepNode("main[1] unnest", step, planned, planned),), planned, sinks=("out",))
    return Segment({"": branch}, {})


def test_a_step_that_refuses_a_type_stops_the_query_before_it_starts() -> None:
    with pytest.raises(StepPlanError, match=r"main\[1\] unnest: .*int"):
        with_actual_types(_segment(), pa.schema([("items", pa.int32())]))


def test_a_type_that_a_step_takes_gives_the_fields_after_it() -> None:
    segment = with_actual_types(_segment(), pa.schema([("items", pa.list_(pa.string()))]))

    assert segment.roots[""].outgoing == pa.schema([("items", pa.string())])
