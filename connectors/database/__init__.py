"""Rows of databases: MySQL, MariaDB, PostgreSQL and SQLite."""
