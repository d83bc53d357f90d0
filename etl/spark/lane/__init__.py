"""Stateful steps on the state lane, in the driver and in Spark's tasks."""
