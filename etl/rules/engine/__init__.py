"""Evaluating all rules on a batch: predicates field by field, then conditions on bit sets."""
