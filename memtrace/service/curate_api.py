"""What curators do, as JSON."""

from __future__ import annotations

import json
from typing import Any, Final

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from memtrace.service import facts
from memtrace.service.facts import TRANSITIONS, Fact, Refused, State, Version
from memtrace.service.keys import Key
from memtrace.service.requests import json_body, parameter, require_curator, store_of, whole
from memtrace.service.rows import Entry, Filter
from memtrace.service.storage import PlaneStore

_MOST: Final = 200
_NO_FACT: Final = "there is no such fact"


async def add(request: Request) -> Response:
    """``POST /v1/facts``: a new fact, proposed or a draft."""
    key = await require_curator(request)
    body = _known(await json_body(request), "agent_id", "content", "category", "state")
    agent_id = curated_agent(key, body.get("agent_id"))
    content = facts.fact_text(body.get("content"))
    category = facts.name(body.get("category", ""), "category", empty=True)
    state = body.get("state", "proposed")
    if state not in ("draft", "proposed"):
        raise Refused(400, "state: a new fact is a draft or proposed; approving it is a step of its own")
    fact = await run_in_threadpool(
        store_of(request).add, key, agent_id, content, category=category, draft=state == "draft"
    )
    return JSONResponse(shown(fact), 201, headers={"Location": f"/v1/facts/{fact.id}"})


async def listing(request: Request) -> Response:
    """``GET /v1/facts``: facts by agent, state, category and words."""
    key = await require_curator(request)
    wanted = wanted_facts(request, key)
    limit = whole(request, "limit", default=50, most=_MOST)
    offset = whole(request, "offset", default=0, least=0, most=10**9)
    found = await run_in_threadpool(store_of(request).facts, wanted, limit=limit, offset=offset)
    return JSONResponse({"facts": [shown(fact) for fact in found]})


async def one(request: Request) -> Response:
    """``GET /v1/facts/ID``: a fact with all its versions."""
    key = await require_curator(request)
    fact, versions = await run_in_threadpool(with_versions, store_of(request), key, request.path_params["fact_id"])
    return JSONResponse(shown(fact) | {"versions": [_shown_version(each) for each in versions]})


async def edit(request: Request) -> Response:
    """``PATCH /v1/facts/ID``: a new version, which needs approval."""
    key = await require_curator(request)
    body = _known(await json_body(request), "content", "category", "version")
    store, fact_id = store_of(request), request.path_params["fact_id"]
    fact, _ = await run_in_threadpool(with_versions, store, key, fact_id)
    content = facts.fact_text(body.get("content", fact.latest.content))
    category = facts.name(body.get("category", fact.latest.category), "category", empty=True)
    seen = _seen(body) or fact.latest.number
    return JSONResponse(
        shown(await run_in_threadpool(store.edit, key, fact_id, content=content, category=category, seen=seen))
    )


async def act(request: Request) -> Response:
    """``POST /v1/facts/ID/ACTION``: propose, approve, reject or retire."""
    key = await require_curator(request)
    body = _known(await json_body(request, optional=True), "version")
    fact_id, action = facts.fact_id(request.path_params["fact_id"]), request.path_params["action"]
    if action not in TRANSITIONS:
        raise Refused(404, f"nothing is done this way: {', '.join(TRANSITIONS)} are")
    return JSONResponse(shown(await run_in_threadpool(store_of(request).act, key, fact_id, action, seen=_seen(body))))


async def agents(request: Request) -> Response:
    """``GET /v1/agents``: agents that have facts, with counts."""
    key = await require_curator(request)
    found = await run_in_threadpool(store_of(request).agents, key.agents)
    rows = [{"agent_id": each.agent_id, "served": each.served, "proposed": each.proposed} for each in found]
    return JSONResponse({"agents": rows})


async def audit(request: Request) -> Response:
    """``GET /v1/audit``: who did what, the newest first."""
    key = await require_curator(request)
    entries = await run_in_threadpool(
        store_of(request).audit,
        fact_id=facts.fact_id(parameter(request, "fact_id")),
        agents=key.agents,
        before=whole(request, "before", default=2**62, most=2**62),
        limit=whole(request, "limit", default=100, most=_MOST),
    )
    return JSONResponse({"entries": [_shown_entry(entry) for entry in entries]})


ROUTES: Final = (
    Route("/v1/facts", add, methods=["POST"]),
    Route("/v1/facts", listing, methods=["GET"]),
    Route("/v1/facts/{fact_id}", one, methods=["GET"]),
    Route("/v1/facts/{fact_id}", edit, methods=["PATCH"]),
    Route("/v1/facts/{fact_id}/{action}", act, methods=["POST"]),
    Route("/v1/agents", agents, methods=["GET"]),
    Route("/v1/audit", audit, methods=["GET"]),
)


def curated_agent(key: Key, agent_id: object) -> str:
    """An agent that the key may curate.

    Raises:
        Refused: 400: it is no id; 403: the key is for others, which is so whether or not the plane knows the agent.
    """
    named = facts.name(agent_id, "agent_id")
    if not key.reads(named):
        raise Refused(403, "this key curates other agents")
    return named


def wanted_facts(request: Request, key: Key) -> Filter:
    """Which facts the query parameters ask for.

    Raises:
        Refused: with status 400.
    """
    state = parameter(request, "state")
    if state and state not in list(State):
        raise Refused(400, f"state: one of {', '.join(State)}")
    return Filter(
        agent_id=facts.name(parameter(request, "agent_id"), "agent_id", empty=True),
        state=State(state) if state else None,
        category=facts.name(parameter(request, "category"), "category", empty=True),
        search=facts.name(parameter(request, "search"), "search", empty=True),
        agents=key.agents,
    )


def with_versions(store: PlaneStore, key: Key, fact_id: str) -> tuple[Fact, list[Version]]:
    """A fact that the key may see, and its versions.

    Raises:
        Refused: 404: there is none, for this key.
    """
    fact = store.fact(facts.fact_id(fact_id))
    if fact is None or not key.reads(fact.agent_id):
        raise Refused(404, _NO_FACT)
    return fact, store.versions(fact_id)


def shown(fact: Fact) -> dict[str, Any]:
    """A fact as JSON."""
    return {
        "id": fact.id, "agent_id": fact.agent_id, "state": fact.latest.state.value, "version": fact.latest.number,
        "content": fact.latest.content, "category": fact.latest.category,
        "served": _shown_version(fact.served) if fact.served else None,
        "updated_by": fact.updated_by, "updated_at": fact.updated_at,
    }  # fmt: skip


def _shown_version(version: Version) -> dict[str, Any]:
    return {
        "version": version.number, "state": version.state.value, "content": version.content,
        "category": version.category, "written_by": version.written_by, "written_at": version.written_at,
        "decided_by": version.decided_by, "decided_at": version.decided_at or None,
    }  # fmt: skip


def _shown_entry(entry: Entry) -> dict[str, Any]:
    return {
        "number": entry.number, "at": entry.at, "who": entry.who, "key_id": entry.key_id, "action": entry.action,
        "agent_id": entry.agent_id, "fact_id": entry.fact_id,
        "before": json.loads(entry.before) if entry.before else None, "after": json.loads(entry.after),
    }  # fmt: skip


def _known(body: dict[str, Any], *names: str) -> dict[str, Any]:
    for name in body:
        if name not in names:
            raise Refused(400, f"{name[:40]!r} is not known here: {', '.join(names)} are")
    return body


def _seen(body: dict[str, Any]) -> int | None:
    version = body.get("version")
    if version is not None and (type(version) is not int or not 0 < version < 2**31):
        raise Refused(400, "version: give the number of the version you looked at")
    return version
