"""``etl dead``: one module for its group and what shows letters, one for what changes them."""
