"""ClickHouse: events as rows of a table, over its HTTP interface."""
