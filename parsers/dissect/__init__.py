"""Fields between fixed texts."""
