"""Measurements of the engine against its targets and its peers: ``python -m benchmarks [NAME…]``."""
