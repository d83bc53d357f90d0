"""The planner: from a checked pipeline to queries, segments and Spark steps, as pure data."""
