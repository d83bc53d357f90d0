"""Conditions of rules: and, or, not over predicates, from Sigma or Spark SQL, bound to the fields of a stream."""
