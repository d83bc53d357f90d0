"""Configurations of Vector → pipelines."""
