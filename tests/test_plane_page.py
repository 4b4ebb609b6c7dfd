"""The page on which people curate: in a real browser by keyboard alone, and what its forms refuse."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from plane_serving import PET_SHOP, Plane, Running, plane_of, running

from memtrace.service import session
from memtrace.service.keys import Role
from memtrace.service.serve import create_key
from memtrace.service.storage import PlaneStore, open_plane

SCRIPT = "<script>document.title='owned'</script><img src=x onerror=\"document.title='owned'\">"


@pytest.fixture
def store(tmp_path: Path) -> Iterator[PlaneStore]:
    store = open_plane(str(tmp_path / "plane.db"))
    yield store
    store.close()


@pytest.fixture
def plane(store: PlaneStore) -> Iterator[Plane]:
    with plane_of(store) as plane:
        yield plane


def token_of(answer: Any) -> str:
    found = re.search(r'name="token" value="([^"]+)"', answer.text)
    assert found
    return found[1]


def log_in(plane: Plane) -> str:
    """Log in; the token that the visit's forms carry."""
    form = {"key": plane.curator, "token": token_of(plane.client.get("/login"))}
    answer = plane.client.post("/login", data=form)
    assert (answer.status_code, answer.headers["Location"]) == (303, "/")
    return token_of(plane.client.get("/"))


@pytest.mark.parametrize("path", ["/", "/new", "/audit", "/facts/f_x"])
def test_nobody_sees_the_page_without_logging_in(plane: Plane, path: str) -> None:
    plane.approved("We close at six.")
    answer = plane.client.get(path)
    assert (answer.status_code, answer.headers["Location"], answer.text) == (303, "/login", "")


def test_only_a_curators_key_logs_in(plane: Plane) -> None:
    token = token_of(plane.client.get("/login"))
    for key, status in (("wrong", 401), ("", 401), (plane.reader, 403)):
        answer = plane.client.post("/login", data={"key": key, "token": token})
        assert answer.status_code == status
        assert plane.client.get("/").status_code == 303


def test_a_visit_ends_with_its_key_and_its_time(plane: Plane, monkeypatch: pytest.MonkeyPatch) -> None:
    log_in(plane)
    assert plane.client.get("/").status_code == 200
    with monkeypatch.context() as later:
        later.setattr(session, "LASTS", -1)
        assert plane.client.get("/").status_code == 303
    curator = next(key for key in plane.store.all_keys() if key.role is Role.CURATOR)
    plane.store.revoke_key(curator.id)
    assert plane.client.get("/").status_code == 303


def test_a_cookie_that_was_touched_is_no_visit(plane: Plane) -> None:
    log_in(plane)
    cookie = plane.client.cookies[session.COOKIE]
    for forged in (cookie[:-1] + ("0" if cookie[-1] != "0" else "1"), cookie.replace("k_", "K_"), "...", "ä", ""):
        assert session.from_cookie(forged, plane.store.secret) is None
    assert session.from_cookie(cookie, "another plane's secret") is None
    assert session.from_cookie(cookie, plane.store.secret) is not None


def test_the_cookie_is_out_of_reach_for_scripts_and_other_sites(plane: Plane) -> None:
    cookie = plane.client.get("/login").headers["Set-Cookie"].lower()
    assert "httponly" in cookie
    assert "samesite=strict" in cookie


@pytest.mark.parametrize("token", ["", "wrong", "of another visit"])
def test_a_form_of_another_site_changes_nothing(plane: Plane, token: str) -> None:
    log_in(plane)
    fact = plane.add("We close at six.")
    if token == "of another visit":
        token = session.form_token(session.begin("k_other"), plane.store.secret)
    form = {"token": token, "version": "1", "agent_id": "a", "content": "b", "key": plane.curator}
    before = plane.curate("GET", "/v1/audit").json()
    for path in (f"/facts/{fact}/approve", f"/facts/{fact}/edit", "/new", "/logout", "/login"):
        assert plane.client.post(path, data=form).status_code == 403
    assert plane.curate("GET", "/v1/audit").json() == before
    assert plane.client.get("/").status_code == 200


def test_a_form_that_says_too_much_too_little_or_something_else_changes_nothing(plane: Plane) -> None:
    token = log_in(plane)
    fact = plane.add("We close at six.")
    approve = f"/facts/{fact}/approve"
    assert plane.client.post(approve, data={"token": token}).status_code == 400
    assert plane.client.post(approve, data={"token": token, "version": "9"}).status_code == 409
    assert plane.client.post(approve, data={"token": token, "version": "1" * 70_000}).status_code == 413
    assert plane.client.post(approve, json={"token": token, "version": 1}).status_code == 415
    assert plane.client.post(f"/facts/{fact}/explode", data={"token": token, "version": "1"}).status_code == 404
    assert plane.client.post("/facts/f_none/approve", data={"token": token, "version": "1"}).status_code == 404
    assert plane.texts() == []


def test_what_was_typed_is_kept_where_it_does_not_pass(plane: Plane) -> None:
    token = log_in(plane)
    answer = plane.client.post("/new", data={"token": token, "agent_id": " ", "content": "Rabbits eat hay."})
    assert (answer.status_code, "Rabbits eat hay." in answer.text) == (400, True)


def test_nobody_is_sent_to_another_site(plane: Plane) -> None:
    token = log_in(plane)
    for back in ("//evil.example", "https://evil.example", "/\\evil.example", ""):
        form = {"token": token, "version": "1", "back": back}
        answer = plane.client.post(f"/facts/{plane.add('We close at six.')}/approve", data=form)
        assert answer.headers["Location"].startswith("/facts/f_")


def test_a_script_in_a_fact_is_text(plane: Plane) -> None:
    log_in(plane)
    fact = plane.approved(SCRIPT, agent_id="<b>pet</b>", category='"><script>')
    for path in ("/", f"/facts/{fact}", "/audit", "/new", f"/?search={SCRIPT}"):
        answer = plane.client.get(path)
        assert answer.status_code == 200
        assert "<script" not in answer.text
        assert "<img src=x" not in answer.text
        assert "<b>" not in answer.text
        policy = answer.headers["Content-Security-Policy"]
        assert policy.startswith("default-src 'none'")
        assert "unsafe" not in policy
        assert " style=" not in answer.text
        assert " onclick" not in answer.text


def test_a_page_that_there_is_not_says_so(plane: Plane) -> None:
    answer = plane.client.get("/nowhere")
    assert answer.status_code == 404
    assert "There is nothing here." in answer.text


@pytest.fixture
def location(tmp_path: Path) -> str:
    return str(tmp_path / "plane.db")


@pytest.fixture
def curator(location: str) -> str:
    return create_key(location, "curator", "ann", [])


@pytest.fixture
def served(location: str, curator: str) -> Iterator[Running]:
    with running(location) as plane:
        yield plane


@pytest.fixture
def browser() -> Iterator[Any]:
    found = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    try:
        from playwright.sync_api import sync_playwright
    except ImportError:
        found = None
    if found is None:
        if os.environ.get("MEMTRACE_REQUIRE_BROWSER") == "1":
            raise RuntimeError("no chromium on PATH, or no playwright: install both")
        pytest.skip("no chromium on PATH, or no playwright")
    options = ["--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-dev-shm-usage"]
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=found, args=options)
        yield browser
        browser.close()


class Keyboard:
    """A curator who has no mouse."""

    def __init__(self, page: Any) -> None:
        self.page = page

    def focus(self, name: str, *, most: int = 60) -> None:
        """Press Tab until what has this accessible name has the focus, which must be visible then."""
        for _ in range(most):
            self.page.keyboard.press("Tab")
            if self._focused() == name:
                outline = self.page.evaluate("getComputedStyle(document.activeElement).outlineStyle")
                assert outline != "none", f"nobody sees that {name} has the focus"
                return
        raise AssertionError(f"Tab never gets to {name!r}")

    def press(self, name: str, key: str = "Enter") -> None:
        """Press a button or follow a link."""
        self.focus(name)
        with self.page.expect_navigation():
            self.page.keyboard.press(key)

    def write(self, name: str, text: str) -> None:
        """Fill a field."""
        self.focus(name)
        self.page.keyboard.press("Control+A")
        self.page.keyboard.type(text)

    def _focused(self) -> str:
        focused: str = self.page.evaluate(
            "(e => e.labels && e.labels.length ? e.labels[0].innerText : e.ariaLabel || e.innerText)"
            "(document.activeElement)"
        )
        return focused.strip()


def test_a_curator_does_all_of_it_by_keyboard(served: Running, curator: str, browser: Any) -> None:
    page = browser.new_page()
    said: list[str] = []
    page.on("console", lambda message: said.append(message.text))
    page.on("pageerror", lambda error: said.append(str(error)))
    hands = Keyboard(page)
    page.goto(served.url)
    hands.write("Curator's key", curator)
    hands.press("Log in")

    hands.press("Add a fact")
    hands.write("Agent", PET_SHOP)
    hands.write("Fact", f"We close at six. {SCRIPT}")
    hands.press("Propose")
    assert page.get_by_role("status").inner_text().startswith("Added.")
    assert page.locator("h1").inner_text() == f"We close at six. {SCRIPT}"

    hands.press("Facts")
    hands.write("Words", "SIX")
    hands.press("Show")
    hands.press("Approve", "Space")
    assert page.get_by_role("status").inner_text().startswith("Approved.")
    assert page.locator("#search").input_value() == "SIX"

    hands.press(f"We close at six. {SCRIPT}")
    hands.write("Fact", "We close at seven.")
    hands.press("Save as a new version")
    assert page.get_by_text("Agents are served version 1 until").is_visible()
    hands.press("Approve")
    assert [each.inner_text() for each in page.locator(".versions .state").all()] == ["approved", "replaced"]
    hands.focus("Retire")
    page.keyboard.press("Enter")
    page.keyboard.press("Tab")
    with page.expect_navigation():
        page.keyboard.press("Enter")
    assert page.get_by_role("status").inner_text().startswith("Retired.")

    hands.press("Audit")
    done = [each.inner_text() for each in page.locator("td:nth-child(3)").all()]
    assert done == ["retire", "approve", "edit", "approve", "add", "create key"]
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.innerText") == "Skip to the content"
    page.keyboard.press("Enter")
    assert page.evaluate("document.activeElement.id") == "main"
    hands.press("Log out")
    assert page.url.endswith("/login")
    assert page.title() == "Log in · Plane"
    assert said == []


def test_fields_have_labels_texts_have_contrast_and_a_phone_is_wide_enough(
    served: Running, curator: str, browser: Any
) -> None:
    fact = {"agent_id": "a" * 200, "content": "x" * 300 + SCRIPT, "category": "c" * 200}
    made = httpx.post(f"{served.url}/v1/facts", json=fact, headers={"X-API-Key": curator}).json()
    for scheme in ("light", "dark"):
        page = browser.new_page(viewport={"width": 360, "height": 740}, color_scheme=scheme)
        page.goto(served.url)
        page.fill("#key", curator)
        page.keyboard.press("Enter")
        page.wait_for_url("**/")
        for path in ("/", "/new", f"/facts/{made['id']}", "/audit"):
            page.goto(served.url + path)
            unlabelled = page.evaluate(
                "[...document.querySelectorAll('input:not([type=hidden], [hidden]), select, textarea')]"
                ".filter(e => !e.labels.length).length"
            )
            assert unlabelled == 0
            assert page.evaluate("document.documentElement.scrollWidth") <= 360, f"{path} scrolls sideways"
            assert page.evaluate("document.querySelectorAll('h1').length") == 1
            assert contrasts(page) == []
        page.close()


def contrasts(page: Any) -> list[str]:
    """Texts that are too faint on their ground: below 4.5 to 1."""
    texts: list[str] = page.evaluate(
        """() => {
        const light = c => c.map(v => v / 255).map(v => v <= .04045 ? v / 12.92 : ((v + .055) / 1.055) ** 2.4)
            .reduce((sum, v, i) => sum + v * [.2126, .7152, .0722][i], 0);
        const parse = text => text.match(/[\\d.]+/g).map(Number);
        const ground = e => { for (; e; e = e.parentElement) {
            const c = parse(getComputedStyle(e).backgroundColor); if (c.length < 4 || c[3] > 0) return c.slice(0, 3); }
            return [255, 255, 255]; };
        return [...document.querySelectorAll('body *')]
            .filter(e => [...e.childNodes].some(n => n.nodeType === 3 && n.textContent.trim()))
            .filter(e => { const [a, b] = [light(parse(getComputedStyle(e).color).slice(0, 3)), light(ground(e))];
                return (Math.max(a, b) + .05) / (Math.min(a, b) + .05) < 4.5; })
            .map(e => e.textContent.trim().slice(0, 40)); }"""
    )
    return texts
