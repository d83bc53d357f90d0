"""Source, sink and look-up tables for databases: MySQL, MariaDB, PostgreSQL and SQLite."""
