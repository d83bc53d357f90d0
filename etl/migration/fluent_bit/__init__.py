"""Configurations of Fluent Bit → pipelines."""
