"""Searching texts for thousands of literals and regular expressions at once."""
