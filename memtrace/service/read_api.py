"""What agents are served: approved facts, over the protocol that the published SDK speaks."""

from __future__ import annotations

import asyncio
import hashlib
import json
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Final
from urllib.parse import unquote

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from memtrace.service import facts
from memtrace.service.facts import Refused
from memtrace.service.keys import Key
from memtrace.service.relevance import scores
from memtrace.service.requests import given_key, parameter, share, store_of, whole
from memtrace.service.storage import PlaneStore

MOST_FACTS: Final = 200
MOST_RANKED: Final = 5_000
"""So many of an agent's approved facts, the last approved, are compared with a question."""
LONGEST_QUESTION: Final = 1_000
"""Characters; what is longer is cut, for a long question is no reason to serve no facts."""
_KEPT_BYTES: Final = 16 * 1024 * 1024
_OVERHEAD: Final = 300
"""About so many bytes does keeping an answer take beside its own."""


@dataclass(frozen=True, slots=True)
class Question:
    """What is asked for."""

    agent_id: str
    limit: int
    threshold: float
    category: str
    query: str


class Answers:
    """Answers by their ETags, which name them exactly: what was made once is not made again. Bounded in bytes.

    Whoever asks for an answer that is being made waits for it. Used on one event loop.
    """

    def __init__(self, most_bytes: int = _KEPT_BYTES) -> None:
        self._most = most_bytes
        self._size = 0
        self._kept: OrderedDict[str, bytes] = OrderedDict()
        self._making: dict[str, asyncio.Task[bytes]] = {}

    async def get(self, tag: str, make: Callable[[], bytes]) -> bytes:
        """The answer with this tag, which ``make`` makes, in a thread, where it is not kept."""
        if tag in self._kept:
            self._kept.move_to_end(tag)
            return self._kept[tag]
        if tag not in self._making:
            self._making[tag] = asyncio.create_task(self._make(tag, make))
        # One who leaves does not take the answer away from the others.
        return await asyncio.shield(self._making[tag])

    async def _make(self, tag: str, make: Callable[[], bytes]) -> bytes:
        try:
            answer = await run_in_threadpool(make)
        finally:
            del self._making[tag]
        self._kept[tag] = answer
        self._size += len(answer) + _OVERHEAD
        while self._size > self._most:
            self._size -= len(self._kept.popitem(last=False)[1]) + _OVERHEAD
        return answer


async def read_facts(request: Request) -> Response:
    """``GET /public/v1/memory/facts``: an agent's approved facts, the best for the question first."""
    secret, store = given_key(request), store_of(request)
    agent_id = parameter(request, "agent_id")
    found = await _admit(store, secret, agent_id)
    if found is None:
        raise Refused(401, "give a working API key in the header X-API-Key")
    key, revision = found
    question = _question(request)
    _require_reading(key, question.agent_id)
    tag = _tag(store.secret, revision, question)
    headers = {"ETag": tag, "Cache-Control": "private, no-cache", "Vary": "X-API-Key, X-Memtrace-Query"}
    if _matches(request.headers.get("if-none-match", ""), tag):
        return Response(status_code=304, headers=headers)
    answers: Answers = request.app.state.answers
    body = await answers.get(tag, partial(_answer, store, question))
    return Response(body, media_type="application/json", headers=headers)


async def check_key(request: Request) -> Response:
    """``GET /public/v1/auth/check``: what the key is for."""
    key = await _admitted(request)
    return JSONResponse(
        {"domain_id": "memtrace", "project_id": "", "scopes": ["memory:read"], "role": key.role.value, "name": key.name}
    )


async def policy(request: Request) -> Response:
    """``GET /public/v1/policy``: that this plane governs memory only, and sets no guardrails."""
    await _admitted(request)
    return JSONResponse({"version": "0", "approval_policies": [], "guardrail_rules": []})


ROUTES: Final = (
    Route("/public/v1/memory/facts", read_facts, methods=["GET"]),
    Route("/public/v1/auth/check", check_key, methods=["GET"]),
    Route("/public/v1/policy", policy, methods=["GET"]),
)


async def _admit(store: PlaneStore, secret: str, agent_id: str) -> tuple[Key, int] | None:
    if "\0" in agent_id:
        agent_id = ""  # which is refused once the key is known
    if store.local:
        return store.admit(secret, agent_id)
    return await run_in_threadpool(store.admit, secret, agent_id)


async def _admitted(request: Request) -> Key:
    found = await _admit(store_of(request), given_key(request), "")
    if found is None:
        raise Refused(401, "give a working API key in the header X-API-Key")
    return found[0]


def _require_reading(key: Key, agent_id: str) -> None:
    # Decided by the key alone: whether the plane knows the agent makes no difference.
    if not key.reads(agent_id):
        raise Refused(403, "this key reads other agents: ask for one that reads this agent")


def _question(request: Request) -> Question:
    return Question(
        agent_id=facts.name(parameter(request, "agent_id"), "agent_id"),
        limit=whole(request, "limit", default=50, most=MOST_FACTS),
        threshold=share(request, "score_threshold"),
        category=facts.name(parameter(request, "category"), "category", empty=True),
        query=_query(request),
    )


def _query(request: Request) -> str:
    """The question, from the header, which access logs do not hold; or from the URL, where a client knows no header."""
    header = request.headers.get("x-memtrace-query")
    if header is None:
        return parameter(request, "query")[:LONGEST_QUESTION]
    try:
        return unquote(header, errors="strict")[:LONGEST_QUESTION]
    except UnicodeDecodeError:
        raise Refused(400, "X-Memtrace-Query: give percent-encoded UTF-8") from None


def _tag(secret: str, revision: int, question: Question) -> str:
    """A strong ETag that changes exactly when the answer may.

    An agent that the plane does not know has revision 0, like one that was never served a fact.
    """
    named = (
        secret, revision, question.agent_id, question.limit, question.threshold, question.category, question.query
    )  # fmt: skip
    return f'"{hashlib.sha256(repr(named).encode("utf-8", "surrogatepass")).hexdigest()[:32]}"'


def _matches(header: str, tag: str) -> bool:
    return header.strip() == "*" or tag in (each.strip().removeprefix("W/") for each in header.split(","))


def _answer(store: PlaneStore, question: Question) -> bytes:
    read = partial(store.served, question.agent_id, category=question.category)
    if question.query.strip():
        found = read(limit=MOST_RANKED)
        scored = list(zip(scores(question.query, [each.content for each in found]), found, strict=True))
        scored.sort(key=lambda pair: -pair[0])
    else:
        scored = [(1.0, each) for each in read(limit=question.limit)]
    kept = [(score, fact) for score, fact in scored if score >= question.threshold][: question.limit]
    rows = [{"content": f.content, "id": f.id, "category": f.category, "score": score} for score, f in kept]
    return json.dumps({"facts": rows}, ensure_ascii=False, separators=(",", ":")).encode()
