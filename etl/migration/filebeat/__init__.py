"""Configurations of Filebeat → pipelines."""
