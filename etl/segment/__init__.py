"""Runs the row-wise steps of a pipeline over one split: branches, unions, sinks, rejects, receipts."""
