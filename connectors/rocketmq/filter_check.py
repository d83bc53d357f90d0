"""Check of an SQL92 filter by a broker.

A broker sends all messages if it cannot parse the filter of a pull, so the filter is checked first.
"""

from __future__ import annotations

import json

from connectors.rocketmq.codes import CHECK_CLIENT_CONFIG
from connectors.rocketmq.connection import Connection
from connectors.rocketmq.puller import SQL


def check_filter(connection: Connection, topic: str, group: str, condition: str) -> None:
    """Raise ComponentError if the broker does not support filters, or not this one."""
    wanted = {"topic": topic, "subString": condition, "expressionType": SQL}
    body = json.dumps({"clientId": "sluice", "group": group, "subscriptionData": wanted}).encode()
    connection.call(CHECK_CLIENT_CONFIG, {}, body)
