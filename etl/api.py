"""All that a component may import: the types a source, step, parser or sink is made of.

Inside a segment an event is a row of a `pyarrow.RecordBatch` whose columns are **flat**: the field
``source.ip`` is a column of that name, and becomes a member of the struct ``source`` only where events
leave the engine (JSON, Parquet, Spark's nested columns). A schema is a `pyarrow.Schema` of such columns;
a field whose type cannot be known before the run has the type ``null``, which fits every use.
"""

from __future__ import annotations

from etl.contract.components import Component, Entry, Family
from etl.contract.delivery import NO_BATCH, BatchId, Committer, Result, Staged, Task, Writer
from etl.contract.errors import (
    NOTICE,
    ComponentError,
    EtlError,
    FileLocation,
    Finding,
    PlanError,
    SplitLostError,
    closest,
    cut,
    nearest,
    unknown_field,
)
from etl.contract.joins import SIDE, SIDE_PREFIXES, SIDE_TIME, JoiningStep, side_fields, united_fields
from etl.contract.parsers import Parsed, Parser
from etl.contract.sinks import Batching, Guarantee, Retry, Sink, Spooling
from etl.contract.sources import FrameSource, Limit, Offset, Receiver, ReceivingSource, Source, Split
from etl.contract.state import (
    ALWAYS,
    NEVER,
    OPTIONAL,
    PANE,
    AfterRun,
    Operator,
    PaneSpan,
    PartRows,
    ReadableState,
    StatefulStep,
    WatermarkAdvance,
)
from etl.contract.steps import ArrowStep, CountingOperator, Outcome, Rejects, SparkStep, SplitMeasures, Step
from etl.contract.tables import Changes, LookupTable, Newer
from etl.events import (
    HIDDEN,
    IDENTITY,
    OFFSET,
    Schema,
    flat_schema,
    flatten,
    nest,
    nested_schema,
    visible,
    with_columns,
    with_fields,
    without,
)
from etl.file_modes import FILE, FOLDER, is_private, output_mode, replace_file
from etl.file_search import FileSearch
from etl.options import Duration, Expression, FieldName, Names, Size, format_duration, parse_duration, parse_size
from etl.types import TIMESTAMP, TypeName, format_type, parse_type, wider

__all__ = [
    "ALWAYS",
    "FILE",
    "FOLDER",
    "HIDDEN",
    "IDENTITY",
    "NEVER",
    "NOTICE",
    "NO_BATCH",
    "OFFSET",
    "OPTIONAL",
    "PANE",
    "SIDE",
    "SIDE_PREFIXES",
    "SIDE_TIME",
    "TIMESTAMP",
    "AfterRun",
    "ArrowStep",
    "BatchId",
    "Batching",
    "Changes",
    "Committer",
    "Component",
    "ComponentError",
    "CountingOperator",
    "Duration",
    "Entry",
    "EtlError",
    "Expression",
    "Family",
    "FieldName",
    "FileLocation",
    "FileSearch",
    "Finding",
    "FrameSource",
    "Guarantee",
    "JoiningStep",
    "Limit",
    "LookupTable",
    "Names",
    "Newer",
    "Offset",
    "Operator",
    "Outcome",
    "PaneSpan",
    "Parsed",
    "Parser",
    "PartRows",
    "PlanError",
    "ReadableState",
    "Receiver",
    "ReceivingSource",
    "Rejects",
    "Result",
    "Retry",
    "Schema",
    "Sink",
    "Size",
    "Source",
    "SparkStep",
    "Split",
    "SplitLostError",
    "SplitMeasures",
    "Spooling",
    "Staged",
    "StatefulStep",
    "Step",
    "Task",
    "TypeName",
    "WatermarkAdvance",
    "Writer",
    "closest",
    "cut",
    "flat_schema",
    "flatten",
    "format_duration",
    "format_type",
    "is_private",
    "nearest",
    "nest",
    "nested_schema",
    "output_mode",
    "parse_duration",
    "parse_size",
    "parse_type",
    "replace_file",
    "side_fields",
    "united_fields",
    "unknown_field",
    "visible",
    "wider",
    "with_columns",
    "with_fields",
    "without",
]
