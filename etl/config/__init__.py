"""YAML text → Pipeline, or Problems with lines."""

from etl.config.loader import CheckedPipeline, check, inspect, load
from etl.config.model import Output, Pipeline, RunOptions, Stream
from etl.config.problems import ConfigError, Problem
from etl.config.stream_schemas import schemas_of, step_schemas

__all__ = [
    "CheckedPipeline",
    "ConfigError",
    "Output",
    "Pipeline",
    "Problem",
    "RunOptions",
    "Stream",
    "check",
    "inspect",
    "load",
    "schemas_of",
    "step_schemas",
]
