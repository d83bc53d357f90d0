"""Sigma rules (specification 2.1), read by pySigma: documents → rules."""
