"""A proxy before brokers: delays what named clients send and get, and counts the bytes of frames.

Runs as a process of its own, beside the brokers:

    python -m live.proxy FRAMES PORT=HOST:PORT ...

Each line of standard input, "NAME MS", delays connections of clients whose id starts with NAME,
each way, from then on. FRAMES gets a line for each response: api, version, correlation id, bytes
of request and response with the four of their length, client id, and the PORT.
"""

import asyncio
import struct
import sys
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import TextIO

#: Of a request's frame: its length, api key, version, correlation id, length of the client id.
_HEAD = struct.Struct(">iHHIh")


class Connection:
    """Two pumps, and what is under way between them."""

    def __init__(self, delays: dict[str, float], frames: TextIO, port: int) -> None:
        self._delays, self._frames, self._port = delays, frames, port
        self._under_way: deque[tuple[int, int, int, int]] = deque()
        self.client = ""

    def requested(self, frame: bytes) -> None:
        _, api, version, correlation_id, length = _HEAD.unpack_from(frame)
        self.client = frame[_HEAD.size : _HEAD.size + max(length, 0)].decode(errors="replace")
        self._under_way.append((correlation_id, api, version, len(frame)))

    def responded(self, frame: bytes) -> None:
        correlation_id = int.from_bytes(frame[4:8])
        while self._under_way:  # a broker responds in order, and to acks=0 not at all
            sent, api, version, request_size = self._under_way.popleft()
            if sent == correlation_id:
                row = (api, version, sent, request_size, len(frame), self.client, self._port)
                print(*row, sep="\t", file=self._frames)
                return

    def delay_s(self) -> float:
        return next((s for name, s in self._delays.items() if self.client.startswith(name)), 0.0)

    async def pump(
        self,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        heard: Callable[[bytes], None],
    ) -> None:
        """Forwards frames, each after the delay of its moment, none before another."""
        loop = asyncio.get_running_loop()
        queue: asyncio.Queue[tuple[float, bytes]] = asyncio.Queue(1000)

        async def forward() -> None:
            while (item := await queue.get())[1]:
                if (wait := item[0] - loop.time()) > 0:
                    await asyncio.sleep(wait)
                writer.write(item[1])
                await writer.drain()

        forwarding = asyncio.create_task(forward())
        with suppress(ConnectionError, asyncio.IncompleteReadError):
            while length := await reader.readexactly(4):
                frame = length + await reader.readexactly(int.from_bytes(length))
                heard(frame)
                await queue.put((loop.time() + self.delay_s(), frame))
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
                of.pump(reader, up_writer, of.requested),
                of.pump(up_reader, writer, of.responded),
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
