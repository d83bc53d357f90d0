"""Conditions of rules: and, or, not over predicates; binding them to a stream, and reading them from Spark SQL."""
