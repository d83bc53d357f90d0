"""Checks of a whole file: how its parts fit together, and what each component finds in its incoming fields."""
