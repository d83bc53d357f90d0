"""Sigma's correlation rules: what they count, their windows and their alerts."""
