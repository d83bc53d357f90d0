"""All rules over a batch of events: predicates field by field, then rules on bit sets."""
