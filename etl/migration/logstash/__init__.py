"""Configurations of Logstash → pipelines."""
