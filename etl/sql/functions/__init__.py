"""Functions and operators of scripts → expressions of a pipeline."""
