"""RocketMQ: name servers and one broker, with or without access control and TLS."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from pathlib import Path
from typing import ClassVar

from servers import maven, ports
from servers.brokers import remoting
from servers.brokers.remoting import Account
from servers.certificates import Certificates
from servers.java import class_path, java
from servers.process import Command
from servers.server import POLL, Server

CLUSTER, BROKER = "DefaultCluster", "broker-a"
DEFAULT_TOPIC = "TBW102"
"""Topic that a broker registers first: when its route is known, all others are."""
NEIGHBOURS = (-2, 1)
"""Other ports of a broker, relative to its own: the fast remoting port, and that for replicas."""

SETTINGS = {
    "brokerClusterName": CLUSTER,
    "brokerName": BROKER,
    "brokerId": 0,
    "brokerRole": "ASYNC_MASTER",
    "flushDiskType": "ASYNC_FLUSH",
    "brokerIP1": ports.HOST,
    "bindAddress": ports.HOST,
    "mappedFileSizeCommitLog": 64 << 20,
    "mappedFileSizeConsumeQueue": 6_000_000,
    "maxIndexNum": 200_000,
    "maxHashSlotNum": 50_000,
    "autoCreateTopicEnable": "true",
    "autoCreateSubscriptionGroup": "true",
    "defaultTopicQueueNums": 4,
    "osPageCacheBusyTimeOutMills": 10_000,
    "waitTimeMillsInSendQueue": 5_000,
    "diskMaxUsedSpaceRatio": 95,
    "enablePropertyFilter": "true",
    "timerWheelEnable": "true",  # without it a topic cannot be deleted: the broker fails on its missing store
    "transactionMetricFlushInterval": 500,  # a broker's first one is a busy loop: 3 s of CPU time by default
    "timerFlushIntervalMs": 60_000,  # each flush compares 38 MB: at every second it takes a quarter of a core
}
AUTH = "org.apache.rocketmq.auth.authentication.provider"


class NameServer(Server):
    """A name server: it has the routes of topics."""

    name: ClassVar[str] = "rocketmq-names"

    def __init__(self, tls: Certificates, port: int = 0) -> None:
        super().__init__()
        self.tls = tls
        self.port = port or ports.free()[0]
        self.address = f"{ports.HOST}:{self.port}"

    def prepare(self) -> None:
        _write(self.folder / "names.conf", {"listenPort": self.port, "bindAddress": ports.HOST})

    def command(self) -> Command:
        return _command(self.folder, "org.apache.rocketmq.namesrv.NamesrvStartup", "names.conf", "96m", self.tls)

    def ready(self) -> bool:
        """Return whether it answers, also without a broker."""
        return remoting.call(self.address, remoting.ROUTE_OF_TOPIC, {"topic": DEFAULT_TOPIC}) is not None


class RocketMq(Server):
    """A broker with its name servers (``names``); stop, kill and restart mean the broker, and ``names`` have their own.

    ``account`` asks for user and password. ``tls`` gives the certificates of its TLS, which RocketMQ offers on the same port;
    without them it gets certificates that no client knows: left to itself, each of its three ports searches for the primes of
    an RSA key, for up to five seconds. ``port`` is that of the first name server.
    """

    name: ClassVar[str] = "rocketmq"

    def __init__(
        self,
        *,
        port: int = 0,
        account: Account | None = None,
        tls: Certificates | None = None,
        name_servers: int = 1,
        settings: Mapping[str, object] | None = None,
        heap: str = "320m",
    ) -> None:
        super().__init__()
        self.account, self.heap, self.settings = account, heap, dict(settings or {})
        self.tls = tls or Certificates(self.folder / "tls")
        self.names = [NameServer(self.tls, port if number == 0 else 0) for number in range(name_servers)]
        self.port = ports.free_with_neighbours(NEIGHBOURS)
        self.broker = f"{ports.HOST}:{self.port}"
        self.servers = [names.address for names in self.names]
        self.address = ";".join(self.servers)

    def prepare(self) -> None:
        where = {"listenPort": self.port, "namesrvAddr": self.address}
        store = {"storePathRootDir": self.folder / "store", "storePathCommitLog": self.folder / "store" / "commitlog"}
        _write(self.folder / "broker.conf", {**SETTINGS, **where, **store, **_access(self.account), **self.settings})

    def command(self) -> Command:
        return _command(self.folder, "LoopbackBroker", "broker.conf", self.heap, self.tls)

    def launch(self) -> None:
        """Start the name servers first: a broker that finds none registers half a minute later."""
        for names in self.names:
            names.launch()
        super().launch()

    def ready(self) -> bool:
        """Return whether it answers, and every running name server has its routes."""
        remoting.call(self.broker, remoting.BROKER_STATE, {}, self.account)
        known = [remoting.has_route(names.address, DEFAULT_TOPIC) for names in self.names if names.process]
        return all(known) and "READY" in (self.process.output() if self.process else "")

    def create_topic(self, topic: str, queues: int = 4, attributes: str = "") -> None:
        """Create a topic and wait until name servers have its route."""
        remoting.create_topic(self.broker, topic, queues, self.account, attributes)
        limit = time.monotonic() + self.patience
        while not all(remoting.has_route(names.address, topic) for names in self.names if names.process):
            if time.monotonic() > limit:
                raise TimeoutError(f"no route to the topic {topic!r} within {self.patience:.0f} s")
            time.sleep(POLL)

    def discard(self) -> None:
        for names in self.names:
            names.discard()
        super().discard()


def _access(account: Account | None) -> dict[str, object]:
    if account is None:
        return {}
    return {
        "authenticationEnabled": "true",
        "authenticationProvider": f"{AUTH}.DefaultAuthenticationProvider",
        "authenticationMetadataProvider": f"{AUTH}.LocalAuthenticationMetadataProvider",
        "initAuthenticationUser": json.dumps({"username": account.user, "password": account.password}),
        "innerClientAuthenticationCredentials": json.dumps({"accessKey": account.user, "secretKey": account.password}),
    }


def _command(home: Path, main: str, configuration: str, heap: str, tls: Certificates) -> Command:
    jars = maven.jars("rocketmq")
    path = class_path(home, jars / "classes", jars / "lib" / "*")
    (home / "conf").mkdir(exist_ok=True)
    options = ["-XX:MaxDirectMemorySize=128m", f"-Duser.home={home / 'logs'}", f"-Drocketmq.home.dir={home}", *_tls(home, tls)]
    return Command([*java(*options, main, heap=heap, path=path), "-c", configuration], home, {"ROCKETMQ_HOME": str(home)})


def _tls(home: Path, certificates: Certificates) -> list[str]:
    pair, settings = certificates.server, home / "tls.properties"
    test, key = {"tls.test.mode.enable": "false"}, {"tls.server.keyPath": pair.key, "tls.server.certPath": pair.certificate}
    _write(settings, {**test, **key, "tls.server.need.client.auth": "none"})
    return [f"-Dtls.config.file={settings}", "-Dtls.server.mode=permissive", "-Dtls.test.mode.enable=false"]


def _write(path: Path, settings: Mapping[str, object]) -> None:
    path.write_text("".join(f"{name}={value}\n" for name, value in settings.items()))
