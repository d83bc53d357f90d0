"""The JVM of a session: which Java it needs, its start, its temporary files, and the limit of open files."""
