"""Steps that look up the keys of events: the first event of a key, the first few, one for each span."""
