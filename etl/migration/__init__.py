"""Configurations of other tools → pipelines, with a report of what was carried over."""
