"""Look-up tables: the kinds of sources that a table's rows can come from."""
