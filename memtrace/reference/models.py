"""What the reference memory asks of a language model, and a client for any OpenAI-compatible server."""

from __future__ import annotations

import asyncio
import json
import os
import ssl
import threading
import time
from collections.abc import AsyncGenerator, AsyncIterator, Generator, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from functools import lru_cache
from typing import Any, Final, Protocol

import httpx

from memtrace.model import Message
from memtrace.reference.wire import (
    Completion,
    ModelError,
    StreamedReply,
    ToolSpec,
    completion,
    error_detail,
    request_body,
)

__all__ = ["ChatModel", "Completion", "Model", "ModelError", "ToolSpec"]

_SERVER_ERROR: Final = 500
_FIRST_WAIT: Final = 0.25


class Model(Protocol):
    """A language model. A stream yields pieces of text, and last the whole `Completion`."""

    @property
    def name(self) -> str:
        """What the model is called, on spans too."""

    def complete(self, messages: Sequence[Message], tools: Sequence[ToolSpec] = ()) -> Completion:
        """The model's answer."""

    async def acomplete(self, messages: Sequence[Message], tools: Sequence[ToolSpec] = ()) -> Completion:
        """The model's answer."""

    def stream(
        self, messages: Sequence[Message], tools: Sequence[ToolSpec] = ()
    ) -> Generator[str | Completion, None, None]:
        """The model's answer as it comes."""

    def astream(
        self, messages: Sequence[Message], tools: Sequence[ToolSpec] = ()
    ) -> AsyncGenerator[str | Completion, None]:
        """The model's answer as it comes."""


class ChatModel:
    """A model behind an OpenAI-compatible chat completions API.

    One object serves any number of threads and event loops at once. Connections are kept alive, those of an event
    loop until it shuts down.

    Args:
        url: base URL, such as ``https://api.openai.com/v1``.
        name: the model to ask for.
        api_key: sent as a bearer token where it is not empty.
        timeout: seconds for connecting, and for each wait for more of the answer.
        retries: how often a call that was answered with a 5xx status is made again, after a growing wait.
    """

    def __init__(self, url: str, name: str, *, api_key: str = "", timeout: float = 60.0, retries: int = 0) -> None:
        self.name = name
        self._url = f"{url.rstrip('/')}/chat/completions"
        self._options: dict[str, Any] = {
            "headers": {"authorization": f"Bearer {api_key}"} if api_key else {},
            "timeout": timeout,
        }
        self._retries = retries
        self._client = _ProcessClient(self._options)
        self._clients = _LoopClients(self._options)

    def __repr__(self) -> str:
        return f"ChatModel({self._url!r}, {self.name!r})"

    def complete(self, messages: Sequence[Message], tools: Sequence[ToolSpec] = ()) -> Completion:
        """The model's answer.

        Raises:
            ModelError: there was none that can be read.
        """
        with self._sent(messages, tools, stream=False) as response:
            return self._completion(response)

    async def acomplete(self, messages: Sequence[Message], tools: Sequence[ToolSpec] = ()) -> Completion:
        """As `complete`."""
        async with self._asent(messages, tools, stream=False) as response:
            return self._completion(response)

    def stream(
        self, messages: Sequence[Message], tools: Sequence[ToolSpec] = ()
    ) -> Generator[str | Completion, None, None]:
        """Pieces of the answer as they come, and last all of it.

        Raises:
            ModelError: there was no answer that can be read, or it broke off.
        """
        reply = StreamedReply()
        with self._sent(messages, tools, stream=True) as response:
            for chunk in response.iter_bytes():
                yield from reply.feed(chunk)
        yield reply.completion()

    async def astream(
        self, messages: Sequence[Message], tools: Sequence[ToolSpec] = ()
    ) -> AsyncGenerator[str | Completion, None]:
        """As `stream`."""
        reply = StreamedReply()
        async with self._asent(messages, tools, stream=True) as response:
            async for chunk in response.aiter_bytes():
                for piece in reply.feed(chunk):
                    yield piece
        yield reply.completion()

    def close(self) -> None:
        """Let go of the connections of this process's threads; those of an event loop go when it shuts down."""
        self._client.close()

    @contextmanager
    def _sent(
        self, messages: Sequence[Message], tools: Sequence[ToolSpec], *, stream: bool
    ) -> Iterator[httpx.Response]:
        client, body = self._client.get(), self._body(messages, tools, stream=stream)
        with self._failures():
            for wait in self._waits():
                with client.stream("POST", self._url, **body) as response:
                    if wait is not None and response.status_code >= _SERVER_ERROR:
                        time.sleep(wait)
                        continue
                    if response.is_error or not stream:
                        response.read()
                    self._check(response)
                    yield response
                    return

    @asynccontextmanager
    async def _asent(
        self, messages: Sequence[Message], tools: Sequence[ToolSpec], *, stream: bool
    ) -> AsyncIterator[httpx.Response]:
        client, body = await self._clients.get(), self._body(messages, tools, stream=stream)
        with self._failures():
            for wait in self._waits():
                async with client.stream("POST", self._url, **body) as response:
                    if wait is not None and response.status_code >= _SERVER_ERROR:
                        await asyncio.sleep(wait)
                        continue
                    if response.is_error or not stream:
                        await response.aread()
                    self._check(response)
                    yield response
                    return

    def _waits(self) -> Iterator[float | None]:
        """For each attempt the seconds until the next one; ``None`` for the last."""
        yield from (_FIRST_WAIT * 2**attempt for attempt in range(self._retries))
        yield None

    def _body(self, messages: Sequence[Message], tools: Sequence[ToolSpec], *, stream: bool) -> dict[str, Any]:
        body = request_body(self.name, messages, tools, stream=stream)
        # httpx's own JSON cannot encode a lone surrogate, which a truncated text may end with.
        return {"content": json.dumps(body).encode(), "headers": {"content-type": "application/json"}}

    def _check(self, response: httpx.Response) -> None:
        if not response.is_success:
            status = response.status_code
            detail = error_detail(response.content) if response.is_error else ""
            raise ModelError(f"the model {self.name!r} answered with status {status}", status=status, detail=detail)

    def _completion(self, response: httpx.Response) -> Completion:
        try:
            return completion(response.json())
        except ValueError as error:
            raise ModelError(f"the model {self.name!r} answered with what is no JSON", detail=response.text) from error

    @contextmanager
    def _failures(self) -> Iterator[None]:
        try:
            yield
        except (httpx.HTTPError, httpx.InvalidURL) as error:
            raise ModelError(f"the model {self.name!r} could not be asked: {type(error).__name__}") from error


@lru_cache(maxsize=1)
def _trusted() -> ssl.SSLContext:
    """What servers are trusted: reading it takes most of the time that making a client takes."""
    return httpx.create_ssl_context()


class _ProcessClient:
    """One client for the threads of a process; a forked child makes its own, for two must not share a connection."""

    def __init__(self, options: dict[str, Any]) -> None:
        self._options = options
        self._lock = threading.Lock()
        self._client: httpx.Client | None = None
        self._pid = 0

    def get(self) -> httpx.Client:
        with self._lock:
            if self._client is None or self._pid != os.getpid():
                self._client, self._pid = httpx.Client(verify=_trusted(), **self._options), os.getpid()
            return self._client

    def close(self) -> None:
        with self._lock:
            client, self._client = self._client, None
        if client is not None and self._pid == os.getpid():
            client.close()


class _LoopClients:
    """One client for each event loop, closed when its loop shuts down: a connection outlives no loop it belongs to."""

    def __init__(self, options: dict[str, Any]) -> None:
        self._options = options
        self._lock = threading.Lock()
        self._open: dict[asyncio.AbstractEventLoop, tuple[AsyncGenerator[Any, None], httpx.AsyncClient]] = {}

    async def get(self) -> httpx.AsyncClient:
        loop = asyncio.get_running_loop()
        with self._lock:
            known = self._open.get(loop)
        return known[1] if known else await self._opened(loop)

    async def _opened(self, loop: asyncio.AbstractEventLoop) -> httpx.AsyncClient:
        # A loop that shuts down closes the asynchronous generators begun in it: the only notice that others get.
        owner = self._owner(loop)
        client = await anext(owner)
        with self._lock:
            for closed in [known for known in self._open if known.is_closed()]:
                del self._open[closed]
            self._open[loop] = owner, client
        return client

    async def _owner(self, loop: asyncio.AbstractEventLoop) -> AsyncGenerator[httpx.AsyncClient, None]:
        client = httpx.AsyncClient(verify=_trusted(), **self._options)
        try:
            yield client
        finally:
            with self._lock:
                self._open.pop(loop, None)
            await client.aclose()
