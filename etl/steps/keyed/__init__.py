"""Steps that decide about each event by those with the same keys."""
