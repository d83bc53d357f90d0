"""Conditions over properties, which brokers evaluate.

A broker that is given a condition it cannot parse in a pull sends all messages, so it is asked about it before.
"""

from __future__ import annotations

import json

from connectors.rocketmq.codes import CHECK_CLIENT
from connectors.rocketmq.connection import Connection
from connectors.rocketmq.pulling import SQL


def check_filter(connection: Connection, topic: str, group: str, condition: str) -> None:
    """Raises ComponentError when the broker does not take such conditions, or not this one."""
    wanted = {"topic": topic, "subString": condition, "expressionType": SQL}
    body = json.dumps({"clientId": "sluice", "group": group, "subscriptionData": wanted}).encode()
    connection.call(CHECK_CLIENT, {}, body)
