"""Logs of web servers."""
