"""Predicates: what rules test of an event. Each module is one family; `families` lists them.

A family carries everything about itself: its value, what it is in Sigma and in Spark SQL, the column types it can be evaluated
on, its words in messages, the share of events it is expected to hold for, and what evaluates it on a batch. Adding an operator
is a module here and a line in `families.FAMILIES`.
"""
