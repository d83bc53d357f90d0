"""Formats, one package or module a format; ``patterns`` holds the grok library."""
