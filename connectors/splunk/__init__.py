"""Splunk: events through its HTTP Event Collector."""
