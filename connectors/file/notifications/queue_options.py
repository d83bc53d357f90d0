"""Options of notifications about objects."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import timedelta
from urllib.parse import urlsplit

from pydantic import BaseModel, ConfigDict, Field

from etl.api import Duration, Finding

_REGION = re.compile(r"(?:^|\.)sqs(?:-fips)?\.([a-z]{2}[a-z0-9-]+-\d+)\.|^([a-z]{2}[a-z0-9-]+-\d+)\.queue\.")
"""The region in a queue's host: sqs.eu-west-1.amazonaws.com, and the former eu-west-1.queue.amazonaws.com."""

MAX_VISIBILITY = timedelta(hours=12)
"""What SQS allows."""


class QueueOptions(BaseModel):
    """The queue of SQS to which S3 sends notifications: directly, by SNS or by EventBridge. Hashable."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    queue: str = Field(
        description="URL of the queue, which only this source reads.",
        pattern=r"^https?://",
        json_schema_extra={"patternErrorMessage": "is not the URL of a queue: write https://sqs.REGION.amazonaws.com/…"},
        examples=["https://sqs.eu-west-1.amazonaws.com/111122223333/new-logs"],
    )
    region: str | None = Field(
        default=None,
        description="Region of the queue; default: the one in its URL, or that of the environment (`AWS_REGION`).",
        min_length=1,
    )
    visibility: Duration = Field(
        default=timedelta(minutes=5),
        description="After how long the queue gives a message again when a run was killed; a run extends this time until the "
        "message's objects are delivered.",
        ge=timedelta(seconds=5),
        le=MAX_VISIBILITY,
    )

    @property
    def endpoint(self) -> str:
        """Scheme and host of the queue's service."""
        parts = urlsplit(self.queue)
        return f"{parts.scheme}://{parts.netloc}"

    @property
    def region_in_url(self) -> str | None:
        """The region that the URL names."""
        found = _REGION.search(urlsplit(self.queue).hostname or "")
        return (found[1] or found[2]) if found else None

    def check(self, *path: str) -> Iterator[Finding]:
        """Yield findings about the URL; ``path`` is the path of this mapping in the component."""
        parts = urlsplit(self.queue)
        if "@" in parts.netloc:
            hint = "give the login in the environment: AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or a role"
            yield Finding("url-with-password", "credentials in a URL would show in messages and logs", (*path, "queue"), hint)
        elif not parts.hostname or len(parts.path.strip("/").split("/")) < 2:
            hint = "write https://sqs.REGION.amazonaws.com/ACCOUNT/NAME"
            yield Finding("bad-url", f"{self.queue!r} does not name a queue", (*path, "queue"), hint)
