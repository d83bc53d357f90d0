"""A queue of SQS, by botocore: messages are received, extended and deleted, up to ten in a request."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

from connectors.file.notifications.queue_options import QueueOptions
from etl.api import ComponentError, Finding

REQUEST_MESSAGES = 10
"""Messages of a request at most."""

POLL_SECONDS = 2
"""How long the queue waits for a message before it answers: stopping waits for it."""

_TIMEOUT_SECONDS = 10.0
PROBE_TIMEOUT_SECONDS = 3.0

_PERMANENT = (
    "AccessDenied",
    "AccessDeniedException",
    "AWS.SimpleQueueService.NonExistentQueue",
    "InvalidAddress",
    "InvalidClientTokenId",
    "KmsAccessDenied",
    "QueueDoesNotExist",
    "SignatureDoesNotMatch",
    "UnrecognizedClientException",
)
"""Codes of errors that another try does not mend."""


class QueueMessage(NamedTuple):
    """A received message: its identifier, which is the same each time it is received, and the handle to change it."""

    id: str
    handle: str
    body: str


@dataclass
class SqsQueue:
    """A queue; all methods raise OSError if another try may succeed, ComponentError otherwise."""

    options: QueueOptions
    timeout: float = _TIMEOUT_SECONDS
    """Seconds that an answer may take."""

    @cached_property
    def _client(self) -> Any:
        try:
            from botocore.config import Config
            from botocore.session import get_session
        except ImportError as error:
            raise ComponentError(f"file: the client of SQS is not installed ({error}): pip install 'sluice-etl[sqs]'") from error
        one = self.options
        region = one.region or one.region_in_url or os.environ.get("AWS_REGION") or os.environ.get("AWS_DEFAULT_REGION")
        config = Config(
            connect_timeout=self.timeout,
            read_timeout=self.timeout + POLL_SECONDS,
            retries={"total_max_attempts": 2, "mode": "standard"},
        )
        return get_session().create_client("sqs", region_name=region, endpoint_url=one.endpoint, config=config)

    def receive(self) -> list[QueueMessage]:
        """The next messages, which the queue gives to no other reader for ``visibility``; empty if none came."""
        with self._errors():
            found = self._client.receive_message(
                QueueUrl=self.options.queue,
                MaxNumberOfMessages=REQUEST_MESSAGES,
                WaitTimeSeconds=POLL_SECONDS,
                VisibilityTimeout=self._visibility,
            )
        return [QueueMessage(one["MessageId"], one["ReceiptHandle"], one["Body"]) for one in found.get("Messages", ())]

    def delete(self, handles: Iterable[str]) -> set[str]:
        """Delete messages; returns the handles of those that are deleted."""
        return self._change(handles, "delete_message_batch", {})

    def extend(self, handles: Iterable[str]) -> set[str]:
        """Begin ``visibility`` again; returns the handles of the messages for which that was possible."""
        return self._change(handles, "change_message_visibility_batch", {"VisibilityTimeout": self._visibility})

    def depth(self) -> int:
        """About how many messages it holds: waiting ones, and those received and not deleted."""
        names = [f"ApproximateNumberOfMessages{kind}" for kind in ("", "NotVisible", "Delayed")]
        with self._errors():
            found = self._client.get_queue_attributes(QueueUrl=self.options.queue, AttributeNames=names)
        return sum(int(number) for number in found.get("Attributes", {}).values())

    def close(self) -> None:
        """Close connections."""
        if "_client" in self.__dict__:
            self._client.close()

    @property
    def _visibility(self) -> int:
        return round(self.options.visibility.total_seconds())

    def _change(self, handles: Iterable[str], operation: str, values: Mapping[str, Any]) -> set[str]:
        changed = set()
        every = list(handles)
        for begin in range(0, len(every), REQUEST_MESSAGES):
            some = every[begin : begin + REQUEST_MESSAGES]
            entries = [{"Id": str(number), "ReceiptHandle": handle, **values} for number, handle in enumerate(some)]
            with self._errors():
                answer = getattr(self._client, operation)(QueueUrl=self.options.queue, Entries=entries)
            changed |= {some[int(one["Id"])] for one in answer.get("Successful", ())}
        return changed

    @contextmanager
    def _errors(self) -> Iterator[None]:
        """Turn errors of botocore into ours; both name the queue."""
        try:
            yield
        except Exception as error:
            if not type(error).__module__.startswith("botocore."):
                raise
            answer = getattr(error, "response", {})
            text = str(error).splitlines()[0]
            code = answer.get("Error", {}).get("Code", "")
            is_login = type(error).__name__ in (
                "NoCredentialsError",
                "PartialCredentialsError",
                "NoRegionError",
                "ProfileNotFound",
            )
            if is_login or code in _PERMANENT:
                raise ComponentError(f"queue {self.options.queue}: {text}") from error
            raise ConnectionError(f"queue {self.options.queue}: {text}") from error


def probe_queue(options: QueueOptions) -> Iterator[Finding]:
    """Yield a finding if the queue cannot be reached, does not exist or refuses the login."""
    queue = SqsQueue(options, PROBE_TIMEOUT_SECONDS)
    try:
        queue.depth()
    except (OSError, ComponentError) as error:
        hint = "check the URL, the region and the login in the environment"
        yield Finding("unreachable", str(error), ("notifications", "queue"), hint)
    finally:
        queue.close()
