"""URLs."""
