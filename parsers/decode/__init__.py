"""Texts that stand for others."""
