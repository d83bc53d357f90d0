"""Eclipse Mosquitto: the one that is installed, else that of the Debian package."""

from __future__ import annotations

import os
import pwd
import shutil
import socket
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, ClassVar

from running import wait_for
from servers import debian, ports
from servers.certificates import Certificates
from servers.command import run
from servers.process import Command
from servers.server import Server

PACKAGES = ("mosquitto",)
SECONDS = 3.0
HELLO = bytes([0x10, 13, 0, 4, *b"MQTT", 4, 2, 0, 60, 0, 1, ord("r")])
"""CONNECT of MQTT 3.1.1 with the client identifier ``r``."""


class Mosquitto(Server):
    """A broker; ``login`` is a user and a password that it requires, ``settings`` are lines of its configuration."""

    name: ClassVar[str] = "mosquitto"
    host = ports.HOST

    def __init__(
        self,
        *,
        port: int = 0,
        login: tuple[str, str] | None = None,
        tls: Certificates | None = None,
        settings: Mapping[str, object] | None = None,
    ) -> None:
        super().__init__()
        self.login, self.tls, self.settings = login, tls, dict(settings or {})
        self.port = port or ports.free()[0]
        self.address = f"{self.host}:{self.port}"

    def prepare(self) -> None:
        """Write the configuration, and the file of passwords."""
        program, environment = _program("mosquitto")
        assert program
        lines = {"listener": f"{self.port} {self.host}", "allow_anonymous": "false" if self.login else "true"}
        if os.geteuid() == 0:
            lines["user"] = pwd.getpwuid(0).pw_name  # it changes to another user otherwise
        if self.login is not None:
            passwords, (user, password) = self.folder / "passwords", self.login
            tool, environment = _program("mosquitto_passwd")
            run(tool, "-c", "-b", passwords, user, password, env={**os.environ, **environment})
            lines["password_file"] = str(passwords)
        if self.tls is not None:
            names = {"cafile": self.tls.authority, "certfile": self.tls.server.certificate, "keyfile": self.tls.server.key}
            lines |= {name: str(path) for name, path in names.items()}
        lines |= {"persistence": "true", "persistence_location": f"{self.folder}/", "max_queued_messages": "0"}
        lines |= {name: str(value) for name, value in self.settings.items()}
        (self.folder / "mosquitto.conf").write_text("".join(f"{name} {value}\n" for name, value in lines.items()))

    def command(self) -> Command:
        program, environment = _program("mosquitto")
        return Command([program, "-c", self.folder / "mosquitto.conf"], self.folder, environment)

    def ready(self) -> bool:
        """Return whether it answers CONNECT; with TLS, whether it listens."""
        with socket.create_connection((self.host, self.port), SECONDS) as connection:
            if self.tls is not None:
                return True
            connection.sendall(HELLO)
            return connection.recv(1) == b"\x20"


def _program(name: str) -> tuple[Path, dict[str, str]]:
    path = os.pathsep.join([os.environ.get("PATH", ""), "/usr/sbin"])
    if found := shutil.which(name, path=path):
        return Path(found), {}
    tree = debian.unpacked("mosquitto", PACKAGES)
    return tree.find(f"usr/*bin/{name}"), tree.environment()


@contextmanager
def subscribed(broker: Mosquitto, topic: str) -> Iterator[list[Any]]:
    """What the client of the Eclipse project gets of a topic."""
    import paho.mqtt.client as paho
    from paho.mqtt.enums import CallbackAPIVersion

    got, ready = list[Any](), list[int]()
    client = paho.Client(CallbackAPIVersion.VERSION2, protocol=paho.MQTTv5)
    client.on_message = lambda *args: got.append(args[2])
    client.on_subscribe = lambda *_: ready.append(1)
    client.connect(broker.host, broker.port)
    client.loop_start()
    client.subscribe(topic, 2)
    wait_for(lambda: bool(ready), what="the subscription")
    try:
        yield got
    finally:
        client.disconnect()
        client.loop_stop()
