from __future__ import annotations

from typing import Any

import httpx
import pytest

from memtrace import redaction, semconv
from memtrace.errors import StoreError
from memtrace.identity import IdKey
from memtrace.redaction import KEYS, OTHER, Policy, Reason, words

KEY = IdKey(b"k" * 32)
POLICY = Policy(names=frozenset({"pet-shop", "gpt-4o", "db.internal"}), key=KEY)
WORD = "swordfish"


class Notes(list[tuple[str, Reason]]):
    def __call__(self, key: str, reason: Reason) -> None:
        self.append((key, reason))


def leaving(key: str, value: Any, policy: Policy = POLICY) -> Any:
    return policy.attributes({key: value}).get(key)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("memory.count", 3),
        ("memory.operation", "read"),
        ("gen_ai.request.model", "gpt-4o"),
        ("gen_ai.agent.name", "pet-shop"),
        ("gen_ai.response.finish_reasons", ["stop"]),
        ("gen_ai.request.temperature", 0.7),
        ("http.response.status_code", 503),
        ("db.response.status_code", "23505"),
        ("server.address", "127.0.0.1"),
        ("server.address", "10.0.0.7"),
        ("server.address", "db.internal"),
        ("telemetry.sdk.version", "1.45.2"),
        ("service.version", "0.66b2"),
        ("memtrace.outcome", "ok"),
    ],
)
def test_what_is_allowed_leaves_as_it_is(key: str, value: Any) -> None:
    assert leaving(key, value) == value


@pytest.mark.parametrize(
    ("key", "value", "reason"),
    [
        ("note", WORD, Reason.KEY),
        ("gen_ai.input.messages", WORD, Reason.KEY),
        ("memory.count", WORD, Reason.SHAPE),
        ("memory.count", True, Reason.SHAPE),
        ("memory.count", -1, Reason.SHAPE),
        ("memory.count", int.from_bytes(WORD.encode()), Reason.SHAPE),
        ("gen_ai.request.temperature", float("nan"), Reason.SHAPE),
        ("gen_ai.request.model", 4, Reason.SHAPE),
        ("gen_ai.request.model", ["gpt-4o"], Reason.SHAPE),
        ("gen_ai.response.finish_reasons", "stop", Reason.SHAPE),
        ("gen_ai.response.finish_reasons", ["stop", 1], Reason.SHAPE),
        ("memtrace.record.digests", [KEY.digest("record", "1"), WORD.encode().hex()], Reason.SHAPE),
        ("memtrace.owner.digest", "0" * 32, Reason.SHAPE),
        ("memtrace.owner.digest", (WORD * 4)[:16].encode().hex(), Reason.SHAPE),
        ("memtrace.digest.key_id", "deadbeef", Reason.SHAPE),
        ("user.id", {"name": WORD}, Reason.ID),
    ],
)
def test_what_is_not_is_dropped_and_told(key: str, value: Any, reason: Reason) -> None:
    notes = Notes()
    assert POLICY.attributes({key: value}, notes) == {}
    assert notes == [(key, reason)]


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("gen_ai.request.model", WORD),
        ("memory.block_name", WORD),
        ("memory.operation", WORD),
        ("server.address", f"{WORD}.example.com"),
        ("http.route", f"/users/{WORD}"),
        ("service.version", WORD),
        ("error.type", WORD),
        ("error.type", f"httpx.{WORD}"),
        ("exception.type", "httpx.Client"),
    ],
)
def test_a_name_nobody_registered_leaves_as_other_and_is_told(key: str, value: str) -> None:
    notes = Notes()
    assert POLICY.attributes({key: value}, notes) == {key: OTHER}
    assert notes == [(key, Reason.NAME)]


def test_the_type_of_an_error_leaves_where_its_class_is_loaded() -> None:
    own = f"{StoreError.__module__}.{StoreError.__qualname__}"
    for known in ("ValueError", "TimeoutError", f"httpx.{httpx.ConnectTimeout.__name__}", own, "500"):
        assert leaving("error.type", known) == known


@pytest.mark.parametrize(
    ("name", "left"),
    [
        ("memory.read", "memory.read"),
        ("memory.read.facts", "memory.read.facts"),
        (f"memory.read.{WORD}", "memory.read.other"),
        ("chat gpt-4o", "chat gpt-4o"),
        (f"chat {WORD}", "chat other"),
        ("chat", "chat"),
        ("SELECT", "SELECT"),
        (f"SELECT {WORD}", "SELECT other"),
        (f"memory.forget.{WORD}", "other"),
        (WORD, "other"),
        ("", "other"),
    ],
)
def test_span_names_are_put_together_from_known_words(name: str, left: str) -> None:
    assert POLICY.span_name(name) == left


class TestIds:
    def test_leave_as_the_digests_that_memtraces_spans_carry(self) -> None:
        assert POLICY.attributes({"user.id": "alice"}) == {
            "user.id": KEY.digest("user", "alice"),
            semconv.DIGEST_KEY_ID: KEY.id,
        }

    def test_of_two_kinds_or_two_tenants_do_not_look_alike(self) -> None:
        other = Policy(key=KEY, tenant="acme")
        digests = {
            leaving("user.id", "a"),
            leaving("session.id", "a"),
            leaving("gen_ai.conversation.id", "a"),
            leaving("gen_ai.memory.record.id", "a"),
            leaving("user.id", "a", other),
        }
        assert len(digests) == 5

    def test_are_dropped_without_a_key(self) -> None:
        notes = Notes()
        assert Policy().attributes({"user.id": "alice"}, notes) == {}
        assert notes == [("user.id", Reason.ID)]

    def test_leave_as_digests_with_payloads_on_too(self) -> None:
        policy = Policy(key=KEY, payloads=True)
        assert policy.attributes({"user.id": "alice", "note": WORD}) == {
            "user.id": KEY.digest("user", "alice"),
            semconv.DIGEST_KEY_ID: KEY.id,
            "note": WORD,
        }

    def test_a_digest_of_another_key_is_not_ours(self) -> None:
        assert leaving("memtrace.owner.digest", IdKey(b"x" * 32).digest("user", "alice")) is None
        assert leaving("memtrace.owner.digest", KEY.digest("user", "alice")) == KEY.digest("user", "alice")

    def test_the_key_is_in_no_repr(self) -> None:
        assert "kkk" not in repr(POLICY)


class TestAPolicy:
    def test_is_extended_by_exact_key_and_shape(self) -> None:
        policy = POLICY.allowing({"app.tier": words("gold silver")})
        assert leaving("app.tier", "gold", policy) == "gold"
        assert leaving("app.tier", WORD, policy) == OTHER
        assert leaving("app.tier.x", "gold", policy) is None
        assert leaving("app.tier", "gold") is None

    def test_is_extended_by_names(self) -> None:
        assert leaving("gen_ai.agent.name", "bank", POLICY.naming("bank")) == "bank"
        assert leaving("gen_ai.agent.name", "pet-shop", POLICY.naming("bank")) == "pet-shop"
        assert leaving("gen_ai.agent.name", "bank") == OTHER

    def test_is_frozen(self) -> None:
        with pytest.raises(AttributeError):
            POLICY.payloads = True  # type: ignore[misc]
        with pytest.raises(TypeError):
            KEYS["x"] = redaction.count  # type: ignore[index]


def test_every_attribute_of_ours_is_allowed_or_named_as_withheld() -> None:
    ours = {
        value
        for name, value in vars(semconv).items()
        if isinstance(value, str) and name.isupper() and value.startswith(("memory.", "gen_ai.", "memtrace.", "user."))
    }
    named = set(KEYS) | redaction.CONTENT | redaction.SPAN_NAMES | redaction.METRICS
    assert ours - named == set()
