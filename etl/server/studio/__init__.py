"""The studio: pasted lines, what reads them, and what each step of a pipeline makes of them, without Spark."""
