"""LEEF: QRadar's Log Event Extended Format."""
