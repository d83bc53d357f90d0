"""Forms of queries, each compiled to the steps that compute it."""
