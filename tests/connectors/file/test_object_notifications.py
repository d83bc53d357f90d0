"""The `file` source over objects that messages of a queue announce: S3 and SQS as moto answers."""

from __future__ import annotations

import json
import random
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from servers.object_store import REGION, ObjectStore

from connectors.file.notifications.inbox import Announcement, Inbox
from connectors.file.notifications.queue_options import QueueOptions
from connectors.file.notifications.receiver import NotificationReceiver
from connectors.file.notifications.sqs_queue import QueueMessage
from connectors.file.objects import object_scan
from connectors.file.objects.object_path import file_system
from connectors.file.objects.object_scan import ObjectScan
from connectors.file.objects.stored_object import StoredObject
from connectors.file.reading.tracked_files import FileOffsets
from connectors.file.source import FileSource
from connectors.shared.lines.charset import charset
from etl.api import ComponentError, Limit, Offset, Rejects

BUCKET = "logs"
WAIT_SECONDS = 60.0


@pytest.fixture(scope="module")
def store() -> Iterator[ObjectStore]:
    with ObjectStore() as started:
        yield started


class Service:
    """A bucket that sends notifications to a queue."""

    def __init__(self, store: ObjectStore, folder: Path) -> None:
        self.store, self.folder = store, folder
        self.s3, self.sqs = store.client(), store.client("sqs")
        self.s3.create_bucket(Bucket=BUCKET)
        self.queue = self.sqs.create_queue(QueueName="new")["QueueUrl"]
        arn = f"arn:aws:sqs:{REGION}:123456789012:new"
        events = ["s3:ObjectCreated:*", "s3:ObjectRemoved:*"]
        self.s3.put_bucket_notification_configuration(
            Bucket=BUCKET, NotificationConfiguration={"QueueConfigurations": [{"QueueArn": arn, "Events": events}]}
        )

    def put(self, key: str, text: str) -> None:
        self.s3.put_object(Bucket=BUCKET, Key=key, Body=text)

    def lose_messages(self) -> list[str]:
        """Take what waits out of the queue."""
        bodies = []
        while found := self.sqs.receive_message(QueueUrl=self.queue, MaxNumberOfMessages=10).get("Messages"):
            for one in found:
                bodies.append(one["Body"])
                self.sqs.delete_message(QueueUrl=self.queue, ReceiptHandle=one["ReceiptHandle"])
        return bodies

    def send(self, body: str) -> None:
        self.sqs.send_message(QueueUrl=self.queue, MessageBody=body)

    @property
    def messages(self) -> int:
        names = ["ApproximateNumberOfMessages", "ApproximateNumberOfMessagesNotVisible"]
        found = self.sqs.get_queue_attributes(QueueUrl=self.queue, AttributeNames=names)["Attributes"]
        return sum(map(int, found.values()))


@pytest.fixture
def service(store: ObjectStore, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Service]:
    for name, value in store.login.items():
        monkeypatch.setenv(name, value)
    found = Service(store, tmp_path)
    yield found
    for one in found.s3.list_objects_v2(Bucket=BUCKET).get("Contents", ()):
        found.s3.delete_object(Bucket=BUCKET, Key=one["Key"])
    found.sqs.delete_queue(QueueUrl=found.queue)
    object_scan._listings.clear()
    file_system.cache_clear()


class Run:
    """A query over one source, from the state of an earlier one."""

    def __init__(self, service: Service, offset: Offset | None = None, pattern: str = "**", **options: Any) -> None:
        path = f"s3://{BUCKET}/{pattern}?endpoint_override={service.store.address}&scheme=http"
        source = FileSource(path=path, notifications=QueueOptions(queue=service.queue), **options)
        self.source = source.with_folder(str(service.folder))
        receiver = self.source.receiver()
        assert isinstance(receiver, NotificationReceiver)
        self.receiver = receiver
        self.offset: Offset = offset or json.loads(json.dumps(self.source.start()))

    def next(self) -> list[Any]:
        """Texts of the next micro-batch, which all sinks have afterwards; the source does not know that yet."""
        end = json.loads(json.dumps(self.source.latest(self.offset, Limit(max_bytes=1 << 40))))
        found: list[Any] = []
        for split in self.source.splits(self.offset, end, 2):
            for batch in self.source.read(split):
                found += [batch.code] if isinstance(batch, Rejects) else batch.column("message").to_pylist()
        self.offset = end
        return sorted(found)

    def commit(self) -> None:
        """The source knows; the receiver looks."""
        self.source.commit([self.offset])
        self.receiver.delete_delivered()


@contextmanager
def run(service: Service, **options: Any) -> Iterator[Run]:
    """A run whose receiver works when the test says so."""
    started = Run(service, **options)
    yield started
    started.receiver.stop()


@pytest.mark.slow
def test_announced_objects_are_read_once_and_their_messages_deleted_afterwards(service: Service) -> None:
    service.put("old.log", "old")
    with run(service) as reader:
        assert reader.next() == ["old"], "what exists is found by listing"
        service.put("a ü+/1.log", "one")
        service.s3.delete_object(Bucket=BUCKET, Key="old.log")
        assert reader.next() == [], "it is not listed again within an hour"

        reader.receiver.receive()  # a test event, old, one, a deletion

        assert reader.next() == ["one"]
        assert service.messages == 1, "the message of an object that is not committed stays"
        reader.commit()
        assert (service.messages, reader.next()) == (0, [])
        service.put("a ü+/1.log", "written again")
        (body,) = service.lose_messages()
        for _ in range(2):
            service.send(body)
        reader.receiver.receive()
        assert reader.next() == ["written again"]
        service.send(body)
        reader.receiver.receive()
        assert reader.next() == []
        reader.commit()
        assert service.messages == 0


@pytest.mark.slow
def test_a_lost_notification_is_found_by_listing_and_not_read_again_when_it_comes(service: Service) -> None:
    with run(service, rescan=timedelta(microseconds=1)) as reader:
        service.put("1.log", "one")
        bodies = service.lose_messages()
        assert reader.next() == ["one"]
        for body in bodies:
            service.send(body)

        reader.receiver.receive()

        assert reader.next() == []
        reader.commit()
        assert service.messages == 0


@pytest.mark.slow
def test_after_a_kill_messages_are_in_the_inbox_and_in_the_queue(service: Service, tmp_path: Path) -> None:
    first = Run(service)
    assert first.next() == []
    before = first.offset
    service.put("1.log", "one")
    first.receiver.receive()
    assert first.next() == ["one"]
    first.receiver._queue.close()  # killed before the micro-batch is committed

    with run(service, offset=before) as second:
        second.receiver.start()
        assert second.next() == ["one"]
        second.source.commit([second.offset])
        assert wait_until(lambda: service.messages == 0)
        assert second.source.backlog(second.offset).notifications is not None  # type: ignore[union-attr]
    with run(service, offset=second.offset) as third:
        assert third.next() == []


@pytest.mark.slow
def test_messages_that_are_not_for_the_source(service: Service) -> None:
    with run(service, pattern="in/*.log", exclude=("*secret*",)) as reader:
        assert reader.next() == []
        service.lose_messages()
        for key in ("out/1.log", "in/secret.log", "in/1.txt"):
            service.put(key, "x")
        service.put("in/gone.log", "x")
        service.s3.delete_object(Bucket=BUCKET, Key="in/gone.log")
        service.send("no notification")

        reader.receiver.receive()

        assert reader.next() == []
        reader.commit()
        assert service.messages == 1, "what is not a notification stays for the queue's own dead letter queue"


@pytest.mark.slow
def test_a_message_that_comes_again_is_reported_once(service: Service, caplog: pytest.LogCaptureFixture) -> None:
    with run(service) as reader:
        for message in ("1", "2", "1", "1"):
            assert reader.receiver._announcement(QueueMessage(message, "handle", "no notification")) is None

    assert [one.args[0] for one in caplog.records if isinstance(one.args, tuple)] == ["1", "2"]


def test_the_visibility_of_waiting_messages_is_extended(service: Service) -> None:
    from moto.sqs.models import sqs_backends

    with run(service) as reader:
        assert reader.next() == []
        service.lose_messages()
        service.put("1.log", "one")
        reader.receiver.receive()
        (message,) = sqs_backends["123456789012"][REGION].queues["new"]._messages
        before = message.visible_at

        reader.receiver.extend()
        assert message.visible_at == before, "half of the time is not over"
        reader.receiver._due.clear()
        time.sleep(0.01)
        reader.receiver.extend()

        assert message.visible_at > before


@pytest.mark.slow
def test_a_queue_that_does_not_exist_ends_the_run_and_is_a_finding(service: Service) -> None:
    queue = QueueOptions(queue=service.queue + "-missing")
    source = FileSource(path=f"s3://{BUCKET}/*?endpoint_override={service.store.address}&scheme=http", notifications=queue)

    receiver = source.with_folder(str(service.folder)).receiver()
    assert receiver is not None
    with pytest.raises(ComponentError, match="new-missing"):
        receiver.start()
    assert [(one.code, one.path) for one in source.probe()][-1] == ("unreachable", ("notifications", "queue"))


@pytest.mark.parametrize(
    ("path", "queue", "code"),
    [
        ("s3://logs/*", "https://sqs.eu-west-1.amazonaws.com/1", "bad-url"),
        ("s3://logs/*", "https://key:secret@sqs.eu-west-1.amazonaws.com/1/q", "url-with-password"),
        ("/var/log/*.log", "https://sqs.eu-west-1.amazonaws.com/1/q", "notifications-unused"),
    ],
)
def test_options_that_cannot_work_are_findings(path: str, queue: str, code: str) -> None:
    (finding,) = FileSource(path=path, notifications=QueueOptions(queue=queue)).check()

    assert finding.code == code
    assert "secret" not in finding.message


@pytest.mark.parametrize(
    ("host", "region"),
    [
        ("sqs.eu-west-1.amazonaws.com", "eu-west-1"),
        ("sqs-fips.us-gov-west-1.amazonaws.com", "us-gov-west-1"),
        ("cn-north-1.queue.amazonaws.com.cn", "cn-north-1"),
        ("vpce-0a.sqs.eu-central-1.vpce.amazonaws.com", "eu-central-1"),
        ("localhost:9324", None),
    ],
)
def test_the_region_is_in_the_host(host: str, region: str | None) -> None:
    assert QueueOptions(queue=f"https://{host}/1/q").region_in_url == region


@pytest.mark.parametrize("seed", range(12))
def test_objects_are_read_once_however_notifications_and_listings_come(
    seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Random lost, late, repeated and reordered notifications, listings, full micro-batches, and runs that begin again."""
    choose = random.Random(seed)
    stored: list[StoredObject] = []
    monkeypatch.setattr(object_scan, "list_objects", lambda *_: iter(stored))
    monkeypatch.setattr(object_scan, "MAX_OBJECTS", choose.choice([3, 10_000]))
    inbox = Inbox(str(tmp_path))
    followed = ObjectScan("s3://logs/*", (), charset("utf-8"), 5.0, 1e9, inbox)
    position, read = FileOffsets(), list[str]()

    def step(lists: bool = False) -> None:
        nonlocal position
        if lists:
            object_scan._listings.clear()
        end = followed.update_offsets(position)
        if choose.random() < 0.2:
            return  # killed: the offsets were not logged
        read.extend(file.path for file in end.files.values() if file.offset > position.begin(file))
        position = FileOffsets.from_json(json.loads(json.dumps(end.to_json())))

    announced: list[StoredObject] = []
    for now in range(60):
        fresh = [StoredObject(f"logs/{now}-{number}", 1, float(now)) for number in range(choose.randrange(3))]
        stored += fresh
        announced += [one for one in fresh if choose.random() < 0.8]
        for one in choose.sample(announced, min(len(announced), choose.randrange(4))):
            inbox.put(Announcement(f"{one.path}{choose.randrange(2)}", "", (one,)))
        step(lists=choose.random() < 0.1)
        delivered = followed.delivered_objects(position)
        done = [one for one in inbox.announcements() if delivered(one.objects[0])]
        assert {one.objects[0].path for one in done} <= {path.removeprefix("s3://") for path in read}
        inbox.remove(choose.sample(done, choose.randrange(len(done) + 1)))
    for _ in range(80):
        step(lists=True)

    object_scan._listings.clear()
    assert sorted(read) == sorted(f"s3://{one.path}" for one in stored)


def wait_until(is_true: Any) -> bool:
    end = time.monotonic() + WAIT_SECONDS
    while not (found := is_true()) and time.monotonic() < end:
        time.sleep(0.05)
    return bool(found)
