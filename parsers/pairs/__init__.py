"""Pairs of keys and values, however they were found, as columns."""
