"""The receiver of the `mqtt` source is killed with SIGKILL while a publisher counts what the broker has acknowledged.

``KILLS=10`` kills it ten times (`make kills-receivers`). With QoS 2 every acknowledged message is stored exactly once, with
QoS 1 at least once.
"""

from __future__ import annotations

import itertools
import json
import os
import subprocess
import sys
import threading
import time
from collections import Counter
from pathlib import Path

import kill_page
import pytest
from mqtt_rig import batch_of, create_sink, create_source, messages, write
from running import wait_for
from servers.brokers.mosquitto_server import Mosquitto
from source_events import receiving

from connectors.shared.journal.reader import Journal

KILLS = int(os.environ.get("KILLS", "2"))
EVENTS = 50
"""Events of a publisher's batch."""

RUN = """
import json, sys, threading
from connectors.mqtt.source import MqttSource
receiver = MqttSource.model_validate(json.loads(sys.argv[1])).with_folder(sys.argv[2]).receiver()
receiver.start()
print("ready", flush=True)
threading.Event().wait()
"""


def stored(folder: Path) -> int:
    return sum(span.events for span in Journal(str(folder)).walk(0))


@pytest.mark.slow
@pytest.mark.delivery
@pytest.mark.parametrize("version", ["5", "3.1.1"])
@pytest.mark.parametrize("qos", [2, 1])
def test_what_the_broker_has_accepted_is_stored(mosquitto: Mosquitto, tmp_path: Path, qos: int, version: str) -> None:
    topic = f"killed/{version}/{qos}"
    source = create_source(tmp_path, mosquitto.address, topics=[topic], qos=qos, version=version)
    options = json.dumps({"servers": [mosquitto.address], "topics": [topic], "qos": qos, "version": version})
    with receiving(source):
        pass  # the session begins
    acknowledged: list[str] = []
    done = threading.Event()

    def publish() -> None:
        sink = create_sink(mosquitto.address, topic=topic, qos=qos)
        for number in itertools.count():
            texts = [f"{number}-{event}" for event in range(EVENTS)]
            assert write(sink, batch_of(text=texts)).retryable is None
            acknowledged.extend(texts)
            if done.wait(0.002):
                return

    publisher = threading.Thread(target=publish)
    publisher.start()
    for _ in range(KILLS):
        with subprocess.Popen([sys.executable, "-c", RUN, options, source._folder], stdout=subprocess.PIPE, text=True) as process:
            before = stored(Path(source._folder))
            wait_for(lambda before=before: stored(Path(source._folder)) > before + 10 * EVENTS, what="events in the journal")
            time.sleep(0.05 * os.urandom(1)[0] / 255)
            process.kill()
    done.set()
    publisher.join()
    with receiving(source):
        wait_for(lambda: set(acknowledged) <= set(messages(source)), what="all messages")

    counts = Counter(messages(source))

    assert counts.keys() == set(acknowledged)
    repeated = sum(count - 1 for count in counts.values())
    if "SLUICE_KILLS_PAGE" in os.environ:
        row = kill_page.receiver_row_of(("mqtt", f"{version}, QoS {qos}"), KILLS, len(acknowledged), 0, repeated)
        kill_page.write(Path(os.environ["SLUICE_KILLS_PAGE"]), row)
    print(f"QoS {qos}, MQTT {version}: {len(acknowledged)} acknowledged by the broker, {KILLS} kills, {repeated} stored twice")
    assert qos == 1 or not repeated
