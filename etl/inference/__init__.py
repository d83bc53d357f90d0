"""Format inference (``etl infer``): which recipe or parser reads a file, and which fields it gives."""
