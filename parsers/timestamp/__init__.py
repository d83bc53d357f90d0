"""Texts of times."""
