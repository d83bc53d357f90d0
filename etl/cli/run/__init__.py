"""``etl run``: the command, its progress, and what it prints at the end."""
