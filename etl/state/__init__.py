"""The state lane: what stateful steps do with record batches, and the files that hold their state."""
