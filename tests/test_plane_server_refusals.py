"""What the plane does not do, and how it says so."""

from __future__ import annotations

import logging
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from plane_serving import PET_SHOP, Plane, plane_of, running

from memtrace.errors import StoreError
from memtrace.service.keys import Role
from memtrace.service.serve import create_key
from memtrace.service.storage import PlaneStore, open_plane

FACTS = "/public/v1/memory/facts"
JSON = {"Content-Type": "application/json"}
JSON_LINE = ("Content-Type: application/json",)


@pytest.fixture
def store(tmp_path: Path) -> Iterator[PlaneStore]:
    store = open_plane(str(tmp_path / "plane.db"))
    yield store
    store.close()


@pytest.fixture
def plane(store: PlaneStore) -> Iterator[Plane]:
    with plane_of(store) as plane:
        yield plane


def refused(answer: Any, status: int) -> str:
    """The one-line reason."""
    assert answer.status_code == status, answer.text
    assert list(answer.json()) == ["error"]
    reason: str = answer.json()["error"]
    assert reason
    assert "\n" not in reason
    assert "Traceback" not in reason
    return reason


@pytest.mark.parametrize("path", [f"{FACTS}?agent_id=a", "/public/v1/auth/check", "/public/v1/policy"])
@pytest.mark.parametrize("key", [None, "", "wrong", "x" * 5_000, "mtp_\xff"])
def test_without_a_working_key_nothing_is_read(plane: Plane, path: str, key: str | None) -> None:
    headers = {} if key is None else {"X-API-Key": key.encode("latin-1")}
    refused(plane.client.get(path, headers=headers), 401)


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("GET", "/v1/facts"), ("POST", "/v1/facts"), ("GET", "/v1/facts/f_x"), ("PATCH", "/v1/facts/f_x"),
        ("POST", "/v1/facts/f_x/approve"), ("GET", "/v1/agents"), ("GET", "/v1/audit"),
    ],
)  # fmt: skip
def test_curating_takes_a_curators_key(plane: Plane, method: str, path: str) -> None:
    refused(plane.client.request(method, path), 401)
    refused(plane.client.request(method, path, headers={"X-API-Key": plane.reader}), 403)


def test_a_key_for_some_agents_reads_no_other_whether_the_plane_knows_it_or_not(plane: Plane) -> None:
    plane.approved("We never close.", "hotel")
    _, limited = plane.store.create_key(Role.READER, "till", agents=[PET_SHOP])
    answers = [plane.read(agent, headers={"X-API-Key": limited}) for agent in ("hotel", "nowhere")]
    assert refused(answers[0], 403) == refused(answers[1], 403)
    assert answers[0].headers == answers[1].headers
    assert plane.read(headers={"X-API-Key": limited}).status_code == 200


def test_a_curator_for_some_agents_sees_and_changes_no_other(plane: Plane) -> None:
    fact = plane.approved("We never close.", "hotel")
    _, limited = plane.store.create_key(Role.CURATOR, "bob", agents=[PET_SHOP])
    headers = {"X-API-Key": limited}
    missing = refused(plane.client.get("/v1/facts/f_none", headers=headers), 404)
    assert refused(plane.client.get(f"/v1/facts/{fact}", headers=headers), 404) == missing
    assert refused(plane.client.post(f"/v1/facts/{fact}/retire", headers=headers), 404) == missing
    assert plane.client.get("/v1/facts", headers=headers).json() == {"facts": []}
    assert plane.client.get("/v1/facts", params={"agent_id": "hotel"}, headers=headers).json() == {"facts": []}
    assert plane.client.get("/v1/agents", headers=headers).json() == {"agents": []}
    assert plane.client.get("/v1/audit", headers=headers).json() == {"entries": []}
    for agent in ("hotel", "nowhere"):
        body = {"agent_id": agent, "content": "Mine."}
        refused(plane.client.post("/v1/facts", json=body, headers=headers), 403)


@pytest.mark.parametrize(
    "query",
    [
        "", "agent_id=", "agent_id=a&agent_id=b", "agent_id=%00", "agent_id=a%0Ab", f"agent_id={'a' * 201}",
        "agent_id=a&limit=0", "agent_id=a&limit=201", "agent_id=a&limit=-1", "agent_id=a&limit=x",
        "agent_id=a&limit=1.5", "agent_id=a&limit=%D9%A3", f"agent_id=a&limit={'9' * 5000}",
        "agent_id=a&limit=1&limit=2", "agent_id=a&score_threshold=1.1", "agent_id=a&score_threshold=-0.1",
        "agent_id=a&score_threshold=nan", "agent_id=a&score_threshold=inf", "agent_id=a&score_threshold=x",
        "agent_id=a&category=%00",
    ],
)  # fmt: skip
def test_parameters_that_are_off_are_named(plane: Plane, query: str) -> None:
    reason = refused(plane.client.get(f"{FACTS}?{query}", headers={"X-API-Key": plane.reader}), 400)
    assert reason.partition(":")[0] in ("agent_id", "limit", "score_threshold", "category")


@pytest.mark.parametrize(
    ("body", "headers", "status"),
    [
        (b"{", JSON, 400), (b"", JSON, 400), (b"[]", JSON, 400), (b'"x"', JSON, 400), (b"\xff", JSON, 400),
        (b"[" * 20_000, JSON, 400),
        (b"{}", {"Content-Type": "text/plain"}, 415), (b"{}", {}, 415),
        (b"a=b", {"Content-Type": "application/x-www-form-urlencoded"}, 415),
        (b"{}", JSON, 400), (b'{"agent_id":"a"}', JSON, 400), (b'{"agent_id":"a","content":" "}', JSON, 400),
        (b'{"agent_id":"a","content":7}', JSON, 400), (b'{"agent_id":7,"content":"a"}', JSON, 400),
        (b'{"agent_id":"a","content":"a\\u0000b"}', JSON, 400), (b'{"agent_id":"a","content":"\\ud800"}', JSON, 400),
        (b'{"agent_id":"a","content":"a","state":"approved"}', JSON, 400),
        (b'{"agent_id":"a","content":"a","admin":true}', JSON, 400),
        (b'{"agent_id":"a","content":"' + b"x" * 4_001 + b'"}', JSON, 400),
        (b'{"agent_id":"a","content":"' + b"x" * 70_000 + b'"}', JSON, 413),
    ],
)  # fmt: skip
def test_a_body_that_is_off_keeps_nothing(plane: Plane, body: bytes, headers: dict[str, str], status: int) -> None:
    key = {"X-API-Key": plane.curator}
    refused(plane.client.post("/v1/facts", content=body, headers={**headers, **key}), status)
    assert plane.curate("GET", "/v1/facts").json() == {"facts": []}


@pytest.mark.parametrize(
    ("header", "sent"),
    [("Content-Length: 1000000000000", b""), ("Transfer-Encoding: chunked", b"8000\r\n" + b"x" * 0x8000 + b"\r\n")],
)
def test_a_huge_body_is_refused_before_it_has_come(header: str, sent: bytes, tmp_path: Path) -> None:
    location = str(tmp_path / "plane.db")
    key = create_key(location, "curator", "ann", [])
    with running(location) as plane:
        place = urlsplit(plane.url)
        with socket.create_connection((place.hostname, place.port), timeout=60) as connection:
            lines = ("POST /v1/facts HTTP/1.1", "Host: plane", f"X-API-Key: {key}", header, *JSON_LINE, "", "")
            connection.sendall("\r\n".join(lines).encode() + sent * 3)
            answer = b""
            while piece := connection.recv(65536):  # to its end: the plane closes a connection that it cannot use again
                answer += piece
    assert answer.startswith(b"HTTP/1.1 413 ")
    assert b'{"error":"the body is too large' in answer


@pytest.mark.parametrize("version", [0, -1, "1", 1.0, True, 2**40])
def test_a_version_that_is_none_is_refused(plane: Plane, version: Any) -> None:
    fact = plane.add("We close at six.")
    refused(plane.act(fact, "approve", version=version), 400)
    assert plane.texts() == []


@pytest.mark.parametrize(
    "path",
    [
        "/v1/facts/f_none", "/v1/facts/%00", "/v1/facts/..%2f..%2fetc%2fpasswd", "/v1/facts/%C3%A4",
        "/v1/facts/' OR 1=1 --", "/v1//facts", "/v1/facts/", "/public/v1/memory/facts/", "/public/v1/../../v1/keys",
        "/v1/facts/%2e%2e", f"/v1/facts/{'x' * 3_000}",
    ],
)  # fmt: skip
def test_odd_paths_find_nothing(plane: Plane, path: str) -> None:
    plane.approved("We close at six.")
    refused(plane.curate("GET", path), 404)


@pytest.mark.parametrize("path", ["/static/../app.py", "/static/%2e%2e/app.py", "/static/plane.css/..", "/static/"])
def test_only_the_pages_own_files_are_served(plane: Plane, path: str) -> None:
    assert plane.client.get(path).status_code == 404


def test_an_action_that_there_is_not_is_not_found(plane: Plane) -> None:
    refused(plane.act(plane.add("We close at six."), "explode"), 404)


def test_an_edit_that_changes_nothing_is_refused(plane: Plane) -> None:
    fact = plane.add("We close at six.")
    answer = plane.curate("PATCH", f"/v1/facts/{fact}", json={"content": "We  close at six."})
    refused(answer, 400)


def test_head_is_get_without_the_body_and_options_tells_the_methods(plane: Plane) -> None:
    plane.approved("We close at six.")
    key = {"X-API-Key": plane.reader}
    got = plane.client.get(FACTS, params={"agent_id": PET_SHOP}, headers=key)
    head = plane.client.head(FACTS, params={"agent_id": PET_SHOP}, headers=key)
    assert (head.status_code, head.content, head.headers["ETag"]) == (200, b"", got.headers["ETag"])
    options = plane.client.options("/v1/facts")
    assert (options.status_code, options.headers["Allow"]) == (204, "GET, HEAD, OPTIONS, POST")
    wrong = plane.client.delete("/v1/facts")
    refused(wrong, 405)
    assert wrong.headers["Allow"] == "GET, HEAD, OPTIONS, POST"


def test_agents_read_and_never_write(plane: Plane) -> None:
    for method in ("POST", "PUT", "PATCH", "DELETE"):
        refused(plane.client.request(method, FACTS, headers={"X-API-Key": plane.reader}), 405)


def test_a_store_that_fails_is_503_and_what_is_said_holds_no_detail(
    plane: Plane, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fails(*_: object) -> None:
        raise StoreError("/srv/plane.db failed: disk I/O error")

    monkeypatch.setattr(plane.store, "admit", fails)
    answer = plane.read()
    assert "/srv" not in refused(answer, 503)
    assert answer.headers["Retry-After"] == "5"
    assert "disk I/O error" in caplog.text


def test_a_defect_of_the_planes_own_is_500_without_a_trace(plane: Plane, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plane.store, "admit", lambda *_: 1 / 0)
    assert "division" not in refused(plane.read(), 500)


def test_the_access_log_holds_no_query_and_no_key(plane: Plane, caplog: pytest.LogCaptureFixture) -> None:
    from starlette.testclient import TestClient

    from memtrace.service.app import make_app

    with caplog.at_level(logging.INFO, "memtrace.plane"), TestClient(make_app(plane.store, access_log=True)) as client:
        headers = {"X-API-Key": plane.reader, "X-Memtrace-Query": "my%20locker%20code"}
        client.get(FACTS, params={"agent_id": PET_SHOP, "query": "my secret"}, headers=headers)
        client.get("/%0Aforged")
    ours = [record.getMessage() for record in caplog.records if record.name == "memtrace.plane"]
    assert ours == [f"GET {FACTS} 200", "GET /%0Aforged 404"]


def test_no_id_can_be_guessed(plane: Plane) -> None:
    ids = [plane.add(f"Fact {number}.") for number in range(3)]
    assert len(set(ids)) == 3
    assert all(len(each) >= 22 for each in ids)
