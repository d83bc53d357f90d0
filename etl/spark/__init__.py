"""Runs a planned pipeline on Spark: session, queries, splits as a data source."""
