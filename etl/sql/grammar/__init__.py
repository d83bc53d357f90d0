"""The grammar of scripts: sqlglot's of Spark SQL with the statements and clauses of Flink SQL and rsqldb.

`script_parser` loads sqlglot, so it is imported inside the function that parses. Each parser of this package adds a part of the
grammar to the one that it extends: tokens, types, CREATE, queries, statements.
"""
