"""Tests of pipelines: their schema, their values, what is wrong with them."""
