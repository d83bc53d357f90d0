"""Grafana Loki: events as lines of streams through its push API."""
