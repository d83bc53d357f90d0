"""Look-up tables: each version is built into an immutable file, which workers map into memory and search by columns of keys.

A table file holds an index (`exact_index`, `interval_index`, `pattern_index`), which maps keys to rows, and the values of the
rows (`column_values`), each distinct one once. Ten million rows of an address, a category and a score take about 80 MB.
"""
