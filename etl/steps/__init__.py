"""Steps that need no outside system."""
