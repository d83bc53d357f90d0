"""Flink's functions of dates, timestamps and times of day."""
