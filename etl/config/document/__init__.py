"""Text of a file → values with the location of each, and what is wrong with the text."""
