"""Start real servers and leave them running until Ctrl-C: ``make servers``, or ``make servers SERVERS="kafka mariadb"``."""

from __future__ import annotations

import argparse
import signal
import sys
import time

from servers.brokers.kafka_server import Kafka
from servers.brokers.mosquitto_server import Mosquitto
from servers.brokers.redis_server import Redis
from servers.brokers.rocketmq_server import RocketMq
from servers.cache import MissingError, print_progress
from servers.command import CommandError
from servers.databases.clickhouse_server import ClickHouse
from servers.databases.mariadb_server import MariaDb
from servers.databases.postgres_server import Postgres
from servers.fleet import KINDS, OTHER_VERSIONS, Fleet
from servers.server import Server, StartError

HEAD = ("server", "address", "user", "password", "in a pipeline")


def main() -> int:
    """Return the exit status: 0 after Ctrl-C, 1 if a server did not start or ended by itself."""
    names = _names()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    fleet = Fleet(names, usual_ports=True)
    try:
        return _serve(fleet)
    except KeyboardInterrupt:
        return 0
    except (MissingError, StartError, CommandError) as error:
        print(error, file=sys.stderr)
        return 1
    finally:
        print_progress("ending all servers and deleting their data")
        fleet.discard()


def _names() -> list[str]:
    options = argparse.ArgumentParser(prog="make servers", description="Start real servers on loopback, until Ctrl-C.")
    message = f"any of {', '.join(KINDS)}; by default all but {' and '.join(sorted(OTHER_VERSIONS))}"
    options.add_argument("servers", nargs="*", metavar="SERVER", help=message)
    names: list[str] = options.parse_args().servers
    if unknown := [name for name in names if name not in KINDS]:
        options.error(f"there is no server {unknown[0]!r}; there are {', '.join(KINDS)}")
    return names or [name for name in KINDS if name not in OTHER_VERSIONS]


def _serve(fleet: Fleet) -> int:
    began = time.monotonic()
    fleet.launch(fleet.expected)
    servers = {name: fleet.start(name) for name in fleet.expected}
    print(table([HEAD, *(row(name, server) for name, server in servers.items())]), flush=True)
    print_progress(f"ready after {time.monotonic() - began:.0f} s; Ctrl-C ends them and deletes their data")
    while True:
        for name, server in servers.items():
            if server.process is None or not server.process.running:
                print(f"{name} ended; the end of its log:\n{server.process.tail() if server.process else ''}", file=sys.stderr)
                return 1
        time.sleep(1)


def row(name: str, server: Server) -> tuple[str, ...]:
    """Return a server's row of the table."""
    user, password = _login(server)
    return name, server.address, user, password, example(server)


def example(server: Server) -> str:
    """Return the options with which a source or sink connects to it."""
    match server:
        case Kafka():
            return f"type: kafka, servers: ['{server.address}']"
        case RocketMq():
            return f"type: rocketmq, servers: {server.servers}"
        case Mosquitto():
            return f"type: mqtt, servers: ['{server.address}']"
        case Redis():
            return f"type: redis, url: {server.url}"
        case MariaDb():
            return f"type: database, url: mysql://{server.address}/{server.database}"
        case Postgres():
            return f"type: database, url: postgresql://{server.address}/{server.database}"
        case ClickHouse():
            return f"type: clickhouse, urls: ['{server.address}'], table: …"
    return f"type: elasticsearch, urls: ['{server.address}']"


def table(rows: list[tuple[str, ...]]) -> str:
    """Return lines with columns as wide as their widest cell."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return "\n".join("  ".join(word.ljust(width) for word, width in zip(row, widths, strict=True)).rstrip() for row in rows)


def _login(server: Server) -> tuple[str, str]:
    match server:
        case MariaDb() | Postgres() | ClickHouse():
            return server.user, server.password
        case RocketMq(account=account) if account:
            return account.user, account.password
    return "-", "-"


if __name__ == "__main__":
    sys.exit(main())
