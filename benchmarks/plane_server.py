"""The plane under load: requests a second and latency, of full answers and of "unchanged", with keep-alive clients.

``python benchmarks/plane_server.py [--clients 200] [--seconds 10] [--store URL] [--json FILE]``: the server is a
process of its own; so is the load, which shares the machine's cores with it.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import platform
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlsplit

import httpx

from memtrace.service.serve import create_key

AGENT = "pet-shop"
FACTS = 200
PATH = f"/public/v1/memory/facts?agent_id={AGENT}&limit=50&score_threshold=0.0"


@contextmanager
def running(location: str) -> Iterator[str]:
    command = [sys.executable, "-m", "memtrace.cli", "plane", "serve", "--port=0", f"--store={location}"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:  # noqa: S603  our own command
        try:
            assert process.stdout is not None
            yield process.stdout.readline().split()[-1]
        finally:
            process.terminate()


def fill(url: str, key: str) -> None:
    with httpx.Client(base_url=url, headers={"X-API-Key": key}) as curator:
        for number in range(FACTS):
            content = f"Fact {number}: shelf {number % 7} of the pet shop holds hay, and it is refilled each morning."
            made = curator.post("/v1/facts", json={"agent_id": AGENT, "content": content}).json()
            curator.post(f"/v1/facts/{made['id']}/approve").raise_for_status()


async def client(url: str, headers: dict[str, str], status: int, until: float) -> list[float]:
    """One keep-alive connection that asks again as soon as it was answered; the seconds that each answer took.

    Bytes on a socket, for an HTTP client library would take more of the cores than the server.
    """
    place = urlsplit(url)
    reader, writer = await asyncio.open_connection(place.hostname, place.port)
    lines = "".join(f"{name}: {value}\r\n" for name, value in {"Host": place.netloc, **headers}.items())
    request = f"GET {PATH} HTTP/1.1\r\n{lines}\r\n".encode()
    expected = f"HTTP/1.1 {status} ".encode()
    took = []
    while (begun := time.perf_counter()) < until:
        writer.write(request)
        head = await reader.readuntil(b"\r\n\r\n")
        assert head.startswith(expected), head
        if status == 200:
            await reader.readexactly(int(head.lower().split(b"content-length: ")[1].split(b"\r\n")[0]))
        took.append(time.perf_counter() - begun)
    writer.close()
    return took


async def load(url: str, headers: dict[str, str], status: int, clients: int, seconds: float) -> dict[str, float]:
    begun = time.perf_counter()
    until = begun + seconds
    each = await asyncio.gather(*(client(url, headers, status, until) for _ in range(clients)))
    elapsed = time.perf_counter() - begun
    took = sorted(seconds for one in each for seconds in one)
    return {
        "requests": len(took),
        "requests_per_second": round(len(took) / elapsed),
        "p50_ms": round(took[len(took) // 2] * 1_000, 2),
        "p99_ms": round(took[len(took) * 99 // 100] * 1_000, 2),
        "max_ms": round(took[-1] * 1_000, 2),
    }


def measure(location: str, *, clients: int, seconds: float) -> dict[str, object]:
    key = create_key(location, "curator", "benchmark", [])
    headers = {"X-API-Key": key}
    with running(location) as url:
        fill(url, key)
        tag = httpx.get(url + PATH, headers=headers).headers["ETag"]
        cases = {
            "200": ({}, 200), "200, with a question": ({"X-Memtrace-Query": "Where%20is%20the%20hay%3F"}, 200),
            "304": ({"If-None-Match": tag}, 304),
        }  # fmt: skip
        measured: dict[str, object] = {
            name: asyncio.run(load(url, {**headers, **more}, status, clients, seconds))
            for name, (more, status) in cases.items()
        }
        alone = asyncio.run(load(url, {**headers, "If-None-Match": tag}, 304, 1, min(seconds, 3)))
        return {**measured, "304, one client": alone}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--clients", type=int, default=200)
    parser.add_argument("--seconds", type=float, default=10)
    parser.add_argument("--store", default="", help="postgresql://… of an empty database (default: a SQLite file)")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as directory:
        location = options.store or str(Path(directory) / "plane.db")
        measured = measure(location, clients=options.clients, seconds=options.seconds)
    report = {
        "clients": options.clients, "facts": FACTS, "served": 50, "cores": os.cpu_count(),
        "load_average": os.getloadavg()[0], "python": platform.python_version(),
        "store": "postgres" if options.store else "sqlite", "measured": measured,
    }  # fmt: skip
    text = json.dumps(report, indent=2)
    if options.json:
        options.json.write_text(text + "\n")
    sys.stdout.write(text + "\n")


if __name__ == "__main__":
    main()
