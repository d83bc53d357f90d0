"""Lines of no known format: what they have in common becomes a pattern of grok."""
