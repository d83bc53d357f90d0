"""The plan of a pipeline as pure data: its queries, each with a frame and a segment."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from etl.api import Source, SparkStep
from etl.plan.frames import Frame, Read, SparkRead, StateGraph, frame_sources, segments, spark_nodes, stages
from etl.plan.segments import Output, Segment


@dataclass(frozen=True)
class QueryPlan:
    """One streaming query: splits → segment → receipts, or frame → segment → receipts.

    Without ``frame``, the tasks that read do all the work. With it, ``segment`` has one root, ``""``, which runs over the frame's
    partitions in ``foreachBatch``.
    """

    name: str
    sources: Mapping[str, Source]
    segment: Segment
    frame: Frame | None = None
    output_mode: str = "append"

    @property
    def parts(self) -> int:
        """Number of segments before and between its Spark steps."""
        return sum(1 for _ in segments(self.frame))

    @property
    def on_state_lane(self) -> bool:
        """Whether its stateful steps run on the state lane."""
        return bool(stages(self.frame))

    @property
    def maps_frames(self) -> bool:
        """Whether segments run over the partitions of Spark's DataFrames, for which Spark needs pandas."""
        match self.frame:
            case None:
                return False
            case StateGraph(child=Read(), inputs=inputs):
                return any(one.between is not None for one in inputs)
        return True

    @property
    def stateful(self) -> bool:
        """Whether Spark (not the state lane) keeps state for it."""
        return any(isinstance(n.step, SparkStep) and n.step.stateful for n in spark_nodes(self.frame))

    @property
    def streaming(self) -> bool:
        """False when all it reads is a source that ends, read once."""
        return bool(self.split_reads) or any(leaf.source.streaming for leaf in self.spark_reads)

    @property
    def spark_reads(self) -> list[SparkRead]:
        """The sources that Spark reads, once for each read."""
        return [leaf for leaf in frame_sources(self.frame) if isinstance(leaf, SparkRead)]

    @property
    def split_reads(self) -> list[int]:
        """The numbers of its reads of splits among its segments."""
        return [0] if self.frame is None else [at for at, (_, reads) in enumerate(segments(self.frame)) if reads]


@dataclass(frozen=True)
class Plan:
    """All queries of a pipeline, in the order of their reports."""

    pipeline: str
    queries: tuple[QueryPlan, ...]
    dead_letters: Output

    def sources(self) -> Mapping[str, Source]:
        """All sources that are read as splits, by name."""
        return {name: source for query in self.queries for name, source in query.sources.items()}
