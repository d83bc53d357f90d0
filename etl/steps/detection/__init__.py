"""Steps that match rules against events, and correlate what they match."""
