"""Tests of pipelines (``etl test``): lines in, events out, through the real steps; with Spark only if a step needs it."""
