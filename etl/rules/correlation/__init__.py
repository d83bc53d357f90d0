"""Sigma correlation rules: what they count, their windows, state and alerts."""
