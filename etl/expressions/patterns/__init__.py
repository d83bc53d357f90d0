"""Regular expressions with the meaning of Java, and LIKE patterns, as patterns of the scanner or of RE2."""
