"""Finding the format of a file: which recipe and which parser reads it, and into which fields."""
