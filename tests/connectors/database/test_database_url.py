"""URLs of databases, and findings for invalid ones."""

from __future__ import annotations

import os

import pytest

from connectors.database.database_url import DatabaseUrl, UrlError, parse_url
from connectors.database.sink import DatabaseSink


@pytest.mark.parametrize(
    ("url", "place"),
    [
        ("mysql://db.example/logs", DatabaseUrl("mysql", "db.example", 3306, "logs")),
        ("jdbc:mysql://db.example/logs", DatabaseUrl("mysql", "db.example", 3306, "logs")),
        ("mariadb://db.example:3307/logs", DatabaseUrl("mysql", "db.example", 3307, "logs")),
        ("mysql+pymysql://me@db.example/logs", DatabaseUrl("mysql", "db.example", 3306, "logs", "me")),
        ("postgresql://[::1]:5433/logs", DatabaseUrl("postgresql", "::1", 5433, "logs")),
        ("postgres://db.example/a%20b", DatabaseUrl("postgresql", "db.example", 5432, "a b")),
        ("sqlite:////var/lib/x.db", DatabaseUrl("sqlite", "", 0, "/var/lib/x.db")),
        ("sqlite:///x.db", DatabaseUrl("sqlite", "", 0, os.path.abspath("x.db"))),
    ],
)
def test_a_url_is_parsed(url: str, place: DatabaseUrl) -> None:
    assert parse_url(url) == place


@pytest.mark.parametrize(
    ("url", "code"),
    [
        ("oracle://db/x", "unknown-database"),
        ("jdbc:oracle:thin:@db:1521/x", "unknown-database"),
        ("db.example/logs", "unknown-database"),
        ("mysql://db.example", "unknown-database"),
        ("mysql://db.example:port/x", "unknown-database"),
        ("mysql://db.example/x?charset=latin1", "unknown-database"),
        ("sqlite://x.db", "unknown-database"),
        ("sqlite:///:memory:", "unknown-database"),
        ("mysql://me:hunter2@db.example/logs", "url-with-password"),
    ],
)
def test_a_wrong_url_is_a_finding_that_shows_no_password(url: str, code: str) -> None:
    with pytest.raises(UrlError) as caught:
        parse_url(url)

    assert caught.value.code == code
    assert "hunter2" not in f"{caught.value} {caught.value.hint}"


def test_display_names_have_no_user_or_password() -> None:
    assert str(parse_url("mysql://me@db.example/logs")) == "MySQL at db.example:3306"
    assert str(parse_url("postgresql://[::1]/logs")) == "PostgreSQL at [::1]:5432"


def test_no_text_of_the_sink_shows_secrets() -> None:
    sink = DatabaseSink(url="mysql://db.example/logs", user="me", password="hunter2", table="t")

    assert "hunter2" not in repr(sink)
    assert "hunter2" not in repr(sink.settings)
