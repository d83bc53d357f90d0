"""Configurations of rsyslog → pipelines."""
