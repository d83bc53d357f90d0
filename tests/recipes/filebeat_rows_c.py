"""Rows of filebeat's modules for network devices, containers and clouds: none of those is outside x-pack."""

from __future__ import annotations

from filebeat_case import Row

ROWS: tuple[Row, ...] = ()
