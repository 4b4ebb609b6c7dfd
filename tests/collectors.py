"""A real collector in between, and receivers that behave badly."""

from __future__ import annotations

import importlib.util
import socket
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest


def free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])


@contextmanager
def rotel(
    out: str, protocol: str, *, grpc: int = 0, http: int = 0, compression: str = "none"
) -> Iterator[dict[str, str]]:
    """The collector of that name, which sends on to ``out``; gives its URL for each protocol."""
    grpc, http = grpc or free_port(), http or free_port()
    command = [
        _binary(), "start", "--otlp-grpc-endpoint", f"127.0.0.1:{grpc}", "--otlp-http-endpoint", f"127.0.0.1:{http}",
        "--exporter", "otlp", "--otlp-exporter-endpoint", out, "--otlp-exporter-protocol", protocol,
        "--otlp-exporter-compression", compression,
        "--batch-timeout", "50ms",
    ]  # fmt: skip
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        for port in (grpc, http):
            _wait_for(port, process)
        yield {"grpc": f"http://127.0.0.1:{grpc}", "http/protobuf": f"http://127.0.0.1:{http}"}
    finally:
        process.terminate()
        process.wait(10)


def _binary() -> str:
    found = importlib.util.find_spec("rotel")
    if found is None or found.origin is None:
        pytest.skip("rotel is not installed: it has a wheel for Linux on x86-64")
    return str(Path(found.origin).parent / "rotel-agent")


def _wait_for(port: int, process: subprocess.Popen[bytes]) -> None:
    pause = threading.Event()
    for _ in range(1000):
        try:
            socket.create_connection(("127.0.0.1", port), 1).close()
        except OSError:
            assert process.poll() is None, "the collector ended"
            pause.wait(0.01)
        else:
            return
    raise AssertionError("the collector does not listen")


@contextmanager
def black_hole() -> Iterator[str]:
    """A port that accepts connections into its queue and never answers."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen(64)
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"
