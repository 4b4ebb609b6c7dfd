"""Running the plane, and its keys, from a command line."""

from __future__ import annotations

import logging
import socket
import sys
from collections.abc import Sequence
from datetime import UTC, datetime

import uvicorn

from memtrace.errors import UsageError
from memtrace.service import facts
from memtrace.service.app import make_app
from memtrace.service.facts import Refused
from memtrace.service.keys import Key, Role
from memtrace.service.storage import PlaneStore, open_plane


def serve(location: str, *, host: str = "127.0.0.1", port: int = 8700, access_log: bool = False) -> None:
    """Serve the plane until the process is asked to end. The first line printed has its URL (port 0: any free one).

    Raises:
        UsageError: the address cannot be listened on.
        StoreError: the store cannot be opened.
    """
    store = open_plane(location)
    try:
        with _listening(host, port) as listener:
            _greet(store, location, listener)
            if access_log:
                _show_log()
            # uvicorn's own access log holds query strings, and with them what users asked.
            application = make_app(store, access_log=access_log)
            config = uvicorn.Config(
                application, access_log=False, log_level="warning", lifespan="off", server_header=False,
                timeout_graceful_shutdown=5,
            )  # fmt: skip
            uvicorn.Server(config).run(sockets=[listener])
    finally:
        store.close()


def _show_log() -> None:
    logging.basicConfig(format="%(asctime)s %(message)s", stream=sys.stderr)
    logging.getLogger("memtrace.plane").setLevel(logging.INFO)


def _listening(host: str, port: int) -> socket.socket:
    try:
        family = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0][0]
        return socket.create_server((host, port), family=family, backlog=1024)
    except (OSError, OverflowError) as error:
        raise UsageError(f"{host}:{port} cannot be listened on: {error}") from None


def _greet(store: PlaneStore, location: str, listener: socket.socket) -> None:
    host, port = listener.getsockname()[:2]
    print(f"the plane is at http://{f'[{host}]' if ':' in host else host}:{port}", flush=True)
    if not any(key.role is Role.CURATOR and key.revoked_at is None for key in store.all_keys()):
        shown = location if "://" not in location else "URL"
        print(f"nobody can curate yet: memtrace plane key create --role curator --name YOU --store {shown}")
    if not host.startswith("127.") and host != "::1":
        print("keys and facts cross the network as they are: put a server with TLS in front", file=sys.stderr)


def create_key(location: str, role: str, name: str, agents: Sequence[str]) -> str:
    """A new key, to be shown once.

    Raises:
        UsageError: a name does not do.
    """
    try:
        named = facts.name(name or role, "--name")
        allowed = [facts.name(agent, "--agent") for agent in agents]
    except Refused as refused:
        raise UsageError(refused.reason) from None
    store = open_plane(location)
    try:
        return store.create_key(Role(role), named, agents=allowed)[1]
    finally:
        store.close()


def revoke_key(location: str, key_id: str) -> None:
    """End a key, at once.

    Raises:
        UsageError: no working key has this id.
    """
    store = open_plane(location)
    try:
        store.revoke_key(key_id)
    finally:
        store.close()


def list_keys(location: str) -> list[str]:
    """One line a key, without the keys themselves."""
    store = open_plane(location)
    try:
        return [_line(key) for key in store.all_keys()]
    finally:
        store.close()


def _line(key: Key) -> str:
    state = f"revoked {_day(key.revoked_at)}" if key.revoked_at is not None else f"since {_day(key.created_at)}"
    agents = f"  agents: {', '.join(sorted(key.agents))}" if key.agents else ""
    return f"{key.id}  {key.role:7}  {key.name}  {state}{agents}"


def _day(at: float) -> str:
    return datetime.fromtimestamp(at, UTC).date().isoformat()
