"""Sequences: ordered patterns over the events of a key, as automata over columns."""
