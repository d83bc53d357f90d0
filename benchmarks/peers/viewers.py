"""Views a pipeline as pages and taps do: ``viewers.py PORT PIPELINE COUNT`` prints the requests a second, until its input ends.

Half of the viewers are pages: the events of the server, and the pipeline, its graph and a sample again and again. The others are
taps. All wait as long as the header ``Poll-After`` asks.
"""

import asyncio
import random
import re
import sys
import time

PAGE_SECONDS, SAMPLE_SECONDS, TAP_SECONDS = 1.5, 2.0, 0.5
"""Pauses of the page and of `etl tap`."""

port, pipeline, count = int(sys.argv[1]), f"/api/pipelines/{sys.argv[2]}", int(sys.argv[3])
sample = f"{pipeline}/samples?stream=parsed&limit=25"
answered = 0


async def connect() -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    return await asyncio.open_connection("127.0.0.1", port)


async def ask(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, path: str) -> tuple[float, bytes]:
    """The seconds that the answer asks to wait, and its body."""
    global answered
    writer.write(f"GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
    head = await reader.readuntil(b"\r\n\r\n")
    if not head.startswith(b"HTTP/1.1 200"):
        raise SystemExit(f"{path}: {head[:100]!r}")
    length, after = re.search(rb"(?i)content-length: (\d+)", head), re.search(rb"(?i)poll-after: ([\d.]+)", head)
    assert length
    body = await reader.readexactly(int(length[1]))
    answered += 1
    return float(after[1]) if after else 0.0, body


async def poll(path: str, every: float) -> None:
    await asyncio.sleep(random.random() * every)
    reader, writer = await connect()
    while True:
        try:
            pause, _ = await ask(reader, writer, path)
        except (asyncio.IncompleteReadError, ConnectionError):  # the server closes connections that are idle
            reader, writer = await connect()
            continue
        await asyncio.sleep(max(every, pause))


async def tap() -> None:
    """`etl tap`: only events after the last one."""
    await asyncio.sleep(random.random() * TAP_SECONDS)
    last, (reader, writer) = b"0", await connect()
    while True:
        pause, body = await ask(reader, writer, f"{pipeline}/samples?stream=parsed&after={last.decode()}")
        last = max(re.findall(rb'"id": (\d+)', body), key=int, default=last)
        await asyncio.sleep(max(TAP_SECONDS, pause))


async def follow_events() -> None:
    reader, writer = await connect()
    writer.write(b"GET /api/events HTTP/1.1\r\nHost: localhost\r\n\r\n")
    while await reader.read(1 << 16):
        pass


async def main() -> None:
    began, work = time.monotonic(), []
    for number in range(count):
        if number % 2:
            work.append(tap())
        else:
            work += [follow_events(), poll(pipeline, PAGE_SECONDS), poll(f"{pipeline}/graph", PAGE_SECONDS)]
            work.append(poll(sample, SAMPLE_SECONDS))
    tasks = [asyncio.create_task(one) for one in work]
    ended = asyncio.create_task(asyncio.to_thread(sys.stdin.read))
    await asyncio.wait([ended, *tasks], return_when=asyncio.FIRST_COMPLETED)
    print(answered / (time.monotonic() - began))
    for task in tasks:
        if task.done():
            task.result()
        task.cancel()


asyncio.run(main())
