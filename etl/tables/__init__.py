"""Look-up tables: built once into a file that never changes, mapped into memory by every worker, looked up by column.

A table file holds an index (`exact`, `intervals`) that says in which rows a key is found, and the rows' values
(`values`), each distinct one once. Ten million rows of an address, a category and a score take about 80 MB.
"""
