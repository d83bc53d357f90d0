"""The SELECT of the step `sql`."""
