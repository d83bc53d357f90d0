"""What a run reports: totals, measures of steps, counts of Spark, log messages, and errors in words for the user."""
