"""Functions on Arrow values without knowledge of expressions: texts, times, numbers, addresses, Community IDs."""
