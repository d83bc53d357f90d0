"""Patterns with names: grok, its library, and regular expressions."""
