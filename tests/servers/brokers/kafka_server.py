"""Kafka: one node that is its own controller (KRaft), with or without users and TLS."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import ClassVar, Literal

from servers import cache, maven, ports
from servers.certificates import Certificates
from servers.command import run
from servers.java import class_path, java
from servers.process import Command
from servers.server import Server, copy

Mechanism = Literal["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"]
USER, PASSWORD = "sluice", "change-me"

CLUSTER = "sluicetestssluicetest0"  # 16 bytes in base64, as Kafka wants it
LOGGING = """\
rootLogger.level=WARN
rootLogger.appenderRef.console.ref=console
appender.console.type=Console
appender.console.name=console
appender.console.layout.type=PatternLayout
appender.console.layout.pattern=%d %p %c{1} %m%n
logger.start.name=kafka.server.KafkaRaftServer
logger.start.level=INFO
"""
SETTINGS = {
    "process.roles": "broker,controller",
    "node.id": 1,
    "controller.listener.names": "CONTROLLER",
    "inter.broker.listener.name": "INTERNAL",
    "broker.session.timeout.ms": 3000,  # after a kill, a node's next life is let in only when this has passed (9 s by default)
    "broker.heartbeat.interval.ms": 500,
    "auto.create.topics.enable": "false",
    "num.partitions": 1,
    "offsets.topic.replication.factor": 1,
    "offsets.topic.num.partitions": 3,
    "transaction.state.log.replication.factor": 1,
    "transaction.state.log.min.isr": 1,
    "transaction.state.log.num.partitions": 3,
    "share.coordinator.state.topic.replication.factor": 1,
    "share.coordinator.state.topic.min.isr": 1,
    "group.initial.rebalance.delay.ms": 0,
    "num.network.threads": 2,
    "num.io.threads": 2,
    "log.cleaner.dedupe.buffer.size": 4194304,
    "log.retention.ms": -1,  # tests write messages with times of years ago: after 7 days, the default, the broker deletes them
}


class Kafka(Server):
    """A broker; ``sasl`` asks for user and password, ``tls`` encrypts with certificates, ``settings`` go to the broker.

    ``more`` are further listeners (their addresses are in ``listeners``): name → security protocol.
    """

    name: ClassVar[str] = "kafka"
    user, password = USER, PASSWORD

    def __init__(
        self,
        *,
        port: int = 0,
        sasl: Mechanism | None = None,
        tls: Certificates | None = None,
        settings: Mapping[str, object] | None = None,
        more: Mapping[str, str] | None = None,
        heap: str = "256m",
    ) -> None:
        super().__init__()
        self.sasl, self.tls, self.heap, self.settings = sasl, tls, heap, dict(settings or {})
        self.more = dict(more or {})
        free, self.internal, self.controller, *others = ports.free(3 + len(self.more))
        self.listeners = {name: f"{ports.HOST}:{port}" for name, port in zip(self.more, others, strict=True)}
        self.port = port or free
        self.address = f"{ports.HOST}:{self.port}"

    @property
    def protocol(self) -> str:
        """The ``security.protocol`` of its clients."""
        return ("SASL_" if self.sasl else "") + ("SSL" if self.tls else "PLAINTEXT")

    def client(self) -> dict[str, str | int | float | bool]:
        """Options of a client (librdkafka) of this broker."""
        message: dict[str, str | int | float | bool] = {"bootstrap.servers": self.address, "security.protocol": self.protocol}
        if self.sasl:
            message |= {"sasl.mechanism": self.sasl, "sasl.username": USER, "sasl.password": PASSWORD}
        return message | ({"ssl.ca.location": str(self.tls.authority)} if self.tls else {})

    def prepare(self) -> None:
        """Create the storage with the users of SCRAM, and write the settings."""
        copy(_formatted(), self.folder / "data")
        (self.folder / "log4j2.properties").write_text(LOGGING)
        (self.folder / "server.properties").write_text(_properties(self._settings()))

    def command(self) -> Command:
        logging = f"-Dlog4j2.configurationFile=file:{self.folder / 'log4j2.properties'}"
        options = ["-XX:MaxDirectMemorySize=128m", logging]
        started = java(*options, "kafka.Kafka", heap=self.heap, path=class_path(maven.jars("kafka") / "lib" / "*"))
        return Command([*started, self.folder / "server.properties"], self.folder)

    def ready(self) -> bool:
        """Return whether its log says that it started: it opens its port before it can answer."""
        assert self.process is not None
        return "Kafka Server started" in self.process.output()

    def _logins(self) -> dict[str, object]:
        asking = [name for name, protocol in self.more.items() if protocol.startswith("SASL")]
        return {
            **(_sasl(self.sasl, "CLIENTS") if self.sasl else {}),
            **{name: value for listener in asking for name, value in _sasl("SCRAM-SHA-512", listener).items()},
        }

    def _settings(self) -> dict[str, object]:
        listeners = {"CLIENTS": self.port, "INTERNAL": self.internal, "CONTROLLER": self.controller}
        addresses = {**{name: f"{ports.HOST}:{port}" for name, port in listeners.items()}, **self.listeners}
        where = {name: f"{name}://{address}" for name, address in addresses.items()}
        protocols = {"CLIENTS": self.protocol, "INTERNAL": "PLAINTEXT", "CONTROLLER": "PLAINTEXT", **self.more}
        return {
            **SETTINGS,
            "controller.quorum.voters": f"1@{ports.HOST}:{self.controller}",
            "listeners": ",".join(where.values()),
            "advertised.listeners": ",".join(place for name, place in where.items() if name != "CONTROLLER"),
            "listener.security.protocol.map": ",".join(f"{name}:{protocol}" for name, protocol in protocols.items()),
            "log.dirs": self.folder / "data",
            **self._logins(),
            **(_tls(self.tls) if self.tls else {}),
            **self.settings,
        }


def _sasl(mechanism: Mechanism, listener: str) -> dict[str, object]:
    module = "plain.PlainLoginModule" if mechanism == "PLAIN" else "scram.ScramLoginModule"
    known = f' user_{USER}="{PASSWORD}"' if mechanism == "PLAIN" else ""  # users of SCRAM stand in the storage
    jaas = f"org.apache.kafka.common.security.{module} required{known};"
    own = f"listener.name.{listener.lower()}"
    return {f"{own}.sasl.enabled.mechanisms": mechanism, f"{own}.{mechanism.lower()}.sasl.jaas.config": jaas}


def _tls(certificates: Certificates) -> dict[str, object]:
    return {
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": certificates.server.together,
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": certificates.authority,
        "ssl.client.auth": "requested",
    }


def _properties(settings: Mapping[str, object]) -> str:
    return "".join(f"{name}={value}\n" for name, value in settings.items())


def _formatted() -> Path:
    """Return the storage of a new node, formatted once, because that takes a start of Java."""
    jars = maven.jars("kafka")
    return cache.fetch_once(f"{jars.name}-formatted", lambda part: _format(jars, part))


def _format(jars: Path, part: Path) -> None:
    settings = part / "server.properties"
    voters = {"controller.quorum.voters": "1@localhost:1", "listeners": "INTERNAL://localhost:2,CONTROLLER://localhost:1"}
    protocols = {"listener.security.protocol.map": "INTERNAL:PLAINTEXT,CONTROLLER:PLAINTEXT"}
    settings.write_text(_properties({**SETTINGS, **voters, **protocols, "log.dirs": part}))
    tool = java("kafka.tools.StorageTool", heap="128m", path=class_path(jars / "lib" / "*"))
    users = [f"--add-scram={kind}=[name={USER},password={PASSWORD}]" for kind in ("SCRAM-SHA-256", "SCRAM-SHA-512")]
    run(*tool, "format", "-t", CLUSTER, "-c", settings, *users)
    settings.unlink()
