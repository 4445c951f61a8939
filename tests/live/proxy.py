"""A proxy before brokers: delays what named clients send and get, and counts the bytes of frames.

Runs as a process of its own, beside the brokers:

    python -m live.proxy FRAMES PORT=HOST:PORT ...

Each line of standard input, "NAME MS", delays connections of clients whose id starts with NAME,
each way, from then on. FRAMES gets a line for each response: api, version, correlation id, bytes
of request and response with the four of their length, client id, and the PORT.
"""

import asyncio
import sys
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import TextIO

_READ_BYTES = 1 << 16
#: Of a frame: its length, api key, version, correlation id, length of the client id, client id.
_HEAD_BYTES = 14


class Frames:
    """Cuts a stream of bytes into frames, of which it keeps the heads alone."""

    def __init__(self, heard: Callable[[bytes, int], None]) -> None:
        self._heard, self._head, self._left = heard, bytearray(), 0

    def feed(self, data: bytes) -> None:
        while data:
            if not self._left:  # the head is not whole yet
                wanted = 4 - len(self._head)
                self._head += data[:wanted]
                data = data[wanted:]
                if len(self._head) == 4:
                    self._size = self._left = int.from_bytes(self._head)
                continue
            taken, data = data[: self._left], data[self._left :]
            self._left -= len(taken)
            self._head += taken[: 300 - len(self._head)]
            if not self._left:
                self._heard(bytes(self._head), self._size + 4)
                self._head.clear()


class Connection:
    """Two pumps, and what is under way between them."""

    def __init__(self, delays: dict[str, float], frames: TextIO, port: int) -> None:
        self._delays, self._frames, self._port = delays, frames, port
        self._under_way: deque[tuple[int, int, int, int]] = deque()
        self.client = ""

    def requested(self, head: bytes, size: int) -> None:
        api, version = int.from_bytes(head[4:6]), int.from_bytes(head[6:8])
        length = int.from_bytes(head[12:14], signed=True)
        self.client = head[_HEAD_BYTES : _HEAD_BYTES + max(length, 0)].decode(errors="replace")
        self._under_way.append((int.from_bytes(head[8:12]), api, version, size))

    def responded(self, head: bytes, size: int) -> None:
        correlation_id = int.from_bytes(head[4:8])
        while self._under_way:  # a broker responds in order, and to acks=0 not at all
            sent, api, version, request_size = self._under_way.popleft()
            if sent == correlation_id:
                row = (api, version, sent, request_size, size, self.client, self._port)
                print(*row, sep="\t", file=self._frames)
                return

    def delay_s(self) -> float:
        return next((s for name, s in self._delays.items() if self.client.startswith(name)), 0.0)

    async def pump(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, frames: Frames
    ) -> None:
        """Forwards what comes, each piece after the delay of its moment, none before another."""
        loop = asyncio.get_running_loop()
        queue: asyncio.Queue[tuple[float, bytes]] = asyncio.Queue(1000)

        async def forward() -> None:
            while (item := await queue.get())[1]:
                if (wait := item[0] - loop.time()) > 0:
                    await asyncio.sleep(wait)
                writer.write(item[1])
                await writer.drain()

        forwarding = asyncio.create_task(forward())
        with suppress(ConnectionError):
            while data := await reader.read(_READ_BYTES):
                frames.feed(data)
                await queue.put((loop.time() + self.delay_s(), data))
        await queue.put((0.0, b""))
        with suppress(ConnectionError):
            await forwarding
        writer.close()


async def serve(frames: TextIO, targets: list[str]) -> None:
    delays: dict[str, float] = {}

    def server(host: str, port: int, proxied: int) -> Callable[..., object]:
        async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            try:
                up_reader, up_writer = await asyncio.open_connection(host, port)
            except OSError:
                writer.close()
                return
            of = Connection(delays, frames, proxied)
            await asyncio.gather(
                of.pump(reader, up_writer, Frames(of.requested)),
                of.pump(up_reader, writer, Frames(of.responded)),
            )

        return connected

    for target in targets:
        port, _, upstream = target.partition("=")
        host, _, upstream_port = upstream.rpartition(":")
        connected = server(host, int(upstream_port), int(port))
        await asyncio.start_server(connected, "127.0.0.1", int(port))
    lines = asyncio.StreamReader()
    await asyncio.get_running_loop().connect_read_pipe(
        lambda: asyncio.StreamReaderProtocol(lines), sys.stdin
    )
    while line := (await lines.readline()).decode().split():
        delays[line[0]] = float(line[1]) / 1000


if __name__ == "__main__":
    with Path(sys.argv[1]).open("w", buffering=1, encoding="utf-8") as opened:
        asyncio.run(serve(opened, sys.argv[2:]))
