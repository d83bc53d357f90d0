"""The step `sequence`: ordered patterns over the events of a key."""
