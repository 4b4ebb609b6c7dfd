"""The page on which people curate: rendered here, with forms and no scripts."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlencode

import jinja2
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import FileResponse, RedirectResponse, Response
from starlette.routing import Route

from memtrace.service import facts, session
from memtrace.service.curate_api import curated_agent, wanted_facts, with_versions
from memtrace.service.facts import TRANSITIONS, Refused, State
from memtrace.service.keys import Key, Role
from memtrace.service.requests import form_body, parameter, store_of, whole
from memtrace.service.session import COOKIE, LASTS, Session

_HERE: Final = Path(__file__).parent
_ON_A_PAGE: Final = 25
_FILTERS: Final = ("search", "agent_id", "state")
_DONE: Final = {
    "add": "Added. It is served once it is approved.",
    "propose": "Proposed for approval.",
    "approve": "Approved. Agents are served it from now on.",
    "reject": "Rejected.",
    "retire": "Retired. Agents are no longer served it.",
    "edit": "Saved as a new version. It is served once it is approved.",
}
_UNWRITTEN: Final = {"agent_id": "", "content": "", "category": ""}
HEADERS: Final = {
    "Content-Security-Policy": (
        "default-src 'none'; style-src 'self'; img-src 'self'; form-action 'self'; base-uri 'none';"
        " frame-ancestors 'none'"
    ),
    "Cache-Control": "no-store",
    "Referrer-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
}


def _time(at: float) -> str:
    return datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%d %H:%M UTC")


_TEMPLATES: Final = jinja2.Environment(
    loader=jinja2.FileSystemLoader(_HERE / "templates"), autoescape=True, undefined=jinja2.StrictUndefined,
    trim_blocks=True, lstrip_blocks=True,
)  # fmt: skip
_TEMPLATES.filters["time"] = _time


class Away(Exception):
    """Nobody is logged in."""


async def login_form(request: Request) -> Response:
    """Where a curator gives a key."""
    return _login(request, "")


async def login(request: Request) -> Response:
    """Begin a visit with a curator's key."""
    visit, form = _visit(request), await form_body(request)
    if visit is None or not session.is_form_of(visit, form.get("token", ""), store_of(request).secret):
        return _login(request, "This form was too old. Please try again.", status=403)
    found = await run_in_threadpool(store_of(request).admit, form.get("key", "").strip())
    if found is None:
        return _login(request, "No working key is like this one.", status=401)
    if found[0].role is not Role.CURATOR:
        return _login(request, "This key only reads. Curating needs a curator's key.", status=403)
    answer = RedirectResponse("/", 303, headers=HEADERS)
    _remember(request, answer, session.begin(found[0].id))
    return answer


async def logout(request: Request) -> Response:
    """End the visit."""
    await _curator(request)
    await _form(request)
    answer = RedirectResponse("/login", 303, headers=HEADERS)
    answer.delete_cookie(COOKIE)
    return answer


async def index(request: Request) -> Response:
    """The agents' facts, as filtered."""
    key = await _curator(request)
    store, wanted = store_of(request), wanted_facts(request, key)
    number = whole(request, "page", default=1, most=10**6)
    offset = (number - 1) * _ON_A_PAGE
    found = await run_in_threadpool(store.facts, wanted, limit=_ON_A_PAGE + 1, offset=offset)
    agents = await run_in_threadpool(store.agents, key.agents)
    chosen = {name: value for name in _FILTERS if (value := parameter(request, name))}
    return _page(
        request, "facts.html", key, facts=found[:_ON_A_PAGE], agents=agents, wanted=wanted, states=list(State)[:-1],
        done=_DONE.get(parameter(request, "done"), ""), here="/?" + urlencode(chosen),
        newer=_link(chosen, number - 1) if number > 1 else "",
        older=_link(chosen, number + 1) if len(found) > _ON_A_PAGE else "",
    )  # fmt: skip


async def new(request: Request) -> Response:
    """A form for a new fact."""
    key = await _curator(request)
    return await _new(request, key, {"agent_id": parameter(request, "agent_id")}, "")


async def add(request: Request) -> Response:
    """Keep a new fact."""
    key, form = await _curator(request), await _form(request)
    try:
        agent_id = curated_agent(key, form.get("agent_id"))
        content = facts.fact_text(form.get("content"))
        category = facts.name(form.get("category", ""), "category", empty=True)
    except Refused as refused:
        return await _new(request, key, form, refused.reason, status=refused.status)
    draft = form.get("state") == "draft"
    fact = await run_in_threadpool(store_of(request).add, key, agent_id, content, category=category, draft=draft)
    return _to(f"/facts/{fact.id}?done=add")


async def fact(request: Request) -> Response:
    """A fact, what may be done with it, and its history."""
    return await _fact(request, await _curator(request), None, "")


async def edit(request: Request) -> Response:
    """Keep a new version of a fact."""
    key, form = await _curator(request), await _form(request)
    fact_id = facts.fact_id(request.path_params["fact_id"])
    try:
        content = facts.fact_text(form.get("content"))
        category = facts.name(form.get("category", ""), "category", empty=True)
        await run_in_threadpool(
            store_of(request).edit, key, fact_id, content=content, category=category, seen=_seen(form)
        )
    except Refused as refused:
        return await _fact(request, key, form, refused.reason, status=refused.status)
    return _to(f"/facts/{fact_id}?done=edit")


async def act(request: Request) -> Response:
    """Propose, approve, reject or retire, and go back to where that was asked for."""
    key, form = await _curator(request), await _form(request)
    fact_id, action = facts.fact_id(request.path_params["fact_id"]), request.path_params["action"]
    if action not in TRANSITIONS:
        raise Refused(404, "there is nothing here")
    try:
        await run_in_threadpool(store_of(request).act, key, fact_id, action, seen=_seen(form))
    except Refused as refused:
        return await _fact(request, key, None, refused.reason, status=refused.status)
    back = form.get("back", "")
    # Only ever a path of this page's own.
    return _to(f"{back}&done={action}" if back.startswith("/?") else f"/facts/{fact_id}?done={action}")


async def audit(request: Request) -> Response:
    """Who did what."""
    key = await _curator(request)
    before = whole(request, "before", default=2**62, most=2**62)
    found = await run_in_threadpool(store_of(request).audit, agents=key.agents, before=before, limit=_ON_A_PAGE * 2 + 1)
    entries = found[: _ON_A_PAGE * 2]
    older = f"/audit?before={entries[-1].number}" if len(found) > len(entries) else ""
    return _page(request, "audit.html", key, entries=entries, older=older, newer="/audit" if before < 2**62 else "")


async def stylesheet(_request: Request) -> Response:
    """How it looks."""
    return FileResponse(_HERE / "static" / "plane.css", media_type="text/css", headers={"Cache-Control": "no-cache"})


async def icon(_request: Request) -> Response:
    """The page's icon."""
    return FileResponse(_HERE / "static" / "plane.svg", media_type="image/svg+xml")


ROUTES: Final = (
    Route("/", index, methods=["GET"]),
    Route("/login", login_form, methods=["GET"]),
    Route("/login", login, methods=["POST"]),
    Route("/logout", logout, methods=["POST"]),
    Route("/new", new, methods=["GET"]),
    Route("/new", add, methods=["POST"]),
    Route("/facts/{fact_id}", fact, methods=["GET"]),
    Route("/facts/{fact_id}/edit", edit, methods=["POST"]),
    Route("/facts/{fact_id}/{action}", act, methods=["POST"]),
    Route("/audit", audit, methods=["GET"]),
    Route("/static/plane.css", stylesheet, methods=["GET"]),
    Route("/static/plane.svg", icon, methods=["GET"]),
)


def to_login() -> Response:
    """Where somebody goes who is not logged in."""
    return RedirectResponse("/login", 303, headers=HEADERS)


def problem(request: Request, status: int, reason: str) -> Response:
    """A page that says in one line what did not work."""
    return _page(request, "problem.html", None, status=status, reason=reason)


def _visit(request: Request) -> Session | None:
    return session.from_cookie(request.cookies.get(COOKIE, ""), store_of(request).secret)


async def _curator(request: Request) -> Key:
    """The key that the visit was opened with, if it still works."""
    visit = _visit(request)
    if visit is None or not visit.key_id:
        raise Away
    key = await run_in_threadpool(store_of(request).key, visit.key_id)
    if key is None or key.role is not Role.CURATOR:
        raise Away
    return key


async def _form(request: Request) -> dict[str, str]:
    form, visit = await form_body(request), _visit(request)
    if visit is None or not session.is_form_of(visit, form.get("token", ""), store_of(request).secret):
        raise Refused(403, "this form is not one of your visit: open the page again")
    return form


def _login(request: Request, error: str, *, status: int = 200) -> Response:
    visit = _visit(request) or session.begin()
    answer = _page(request, "login.html", None, status=status, visit=visit, error=error)
    _remember(request, answer, visit)
    return answer


def _remember(request: Request, answer: Response, visit: Session) -> None:
    answer.set_cookie(
        COOKIE, session.to_cookie(visit, store_of(request).secret), max_age=LASTS, httponly=True, samesite="strict",
        secure=request.url.scheme == "https",
    )  # fmt: skip


async def _new(request: Request, key: Key, given: dict[str, str], error: str, *, status: int = 200) -> Response:
    agents = await run_in_threadpool(store_of(request).agents, key.agents)
    return _page(request, "new.html", key, status=status, given=_UNWRITTEN | given, error=error, agents=agents)


async def _fact(request: Request, key: Key, given: dict[str, str] | None, error: str, *, status: int = 200) -> Response:
    store, fact_id = store_of(request), request.path_params["fact_id"]
    found, versions = await run_in_threadpool(with_versions, store, key, fact_id)
    entries = await run_in_threadpool(store.audit, fact_id=found.id, limit=200)
    edited = {"content": found.latest.content, "category": found.latest.category} | (given or {})
    done = _DONE.get(parameter(request, "done"), "")
    return _page(
        request, "fact.html", key, status=status, fact=found, versions=versions, entries=entries, edited=edited,
        done=done, error=error,
    )  # fmt: skip


def _page(
    request: Request, template: str, key: Key | None, *, status: int = 200, visit: Session | None = None, **values: Any
) -> Response:
    known = visit or _visit(request)
    token = session.form_token(known, store_of(request).secret) if known else ""
    text = _TEMPLATES.get_template(template).render(
        key=key, token=token, path=request.url.path, status=status, **values
    )
    return Response(text, status, headers=HEADERS, media_type="text/html")


def _seen(form: dict[str, str]) -> int:
    text = form.get("version", "")
    if not (text.isascii() and text.isdecimal() and len(text) < 10):
        raise Refused(400, "the form does not say which version it is about")
    return int(text)


def _link(chosen: dict[str, str], number: int) -> str:
    return "/?" + urlencode({**chosen, "page": number})


def _to(path: str) -> Response:
    return RedirectResponse(path, 303, headers=HEADERS)
