"""Aggregates as users write them: calls, types and findings, and the Spark SQL of each function."""
