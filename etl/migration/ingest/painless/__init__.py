"""Painless, the language of conditions and scripts in ingest pipelines → expressions in Spark SQL."""
