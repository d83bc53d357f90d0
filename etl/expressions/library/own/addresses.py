"""Functions of addresses and flows."""

from __future__ import annotations

from etl.expressions.calls import text_calls
from etl.expressions.library.function import LibraryFunction

FUNCTIONS = (
    LibraryFunction(
        "ip_in",
        "address: text, network: string, more: string...",
        "boolean",
        text_calls.ip_in,
        "Whether an address is inside one of some networks; IPv4 and IPv6. IPv4 inside IPv6 (`::ffff:10.0.0.1`) is IPv4.",
        "ip_in('10.1.2.3', '10.0.0.0/8', '192.168.0.0/16')",
        True,
        null="null if the address is null; false if it is not an address",
        is_in_spark=True,
    ),
    LibraryFunction(
        "community_id",
        "source: text, destination: text, source_port: any, destination_port: any, transport: text, seed: integer?",
        "string",
        text_calls.community_id,
        "The Community ID, version 1, of a flow; of ICMP with type and code for the ports.",
        "community_id('128.232.110.120', '66.35.250.204', 34855, 80, 'tcp')",
        "1:LQU9qZlK+B5F3KDmev6m5PMibrg=",
        null="null if an address is invalid, the protocol unknown, or a port missing",
        is_in_spark=True,
    ),
)
