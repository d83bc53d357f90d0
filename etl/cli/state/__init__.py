"""``etl state``: one module a part of the command."""
