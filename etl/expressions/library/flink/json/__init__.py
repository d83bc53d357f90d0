"""Flink's functions of JSON."""
