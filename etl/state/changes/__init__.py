"""Operators whose results are changelogs: rows that are added, replaced and removed (`etl.contract.changelogs`)."""
