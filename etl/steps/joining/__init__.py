"""The step `join`: pairs of events of two streams."""
