"""Tests of pipelines: lines in, events out, through the real steps; without Spark where no step needs it."""
