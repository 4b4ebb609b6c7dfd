"""The key and the tenant of a process: what is no good is one line, and ids are dropped."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from memtrace.export import default_policy
from memtrace.identity import IdKey, IdKeyWarning, id_key

KEY = "k" * 32


@pytest.fixture(autouse=True)
def _environment(monkeypatch: pytest.MonkeyPatch) -> Iterator[pytest.MonkeyPatch]:
    for name in ("MEMTRACE_ID_KEY", "MEMTRACE_ID_KEY_FILE", "MEMTRACE_ID_TENANT"):
        monkeypatch.delenv(name, raising=False)
    id_key.cache_clear()
    yield monkeypatch
    id_key.cache_clear()


def test_the_tenant_is_in_every_digest(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MEMTRACE_ID_KEY", KEY)
    digests = set()
    for tenant in ("", "acme", "umbrella"):
        monkeypatch.setenv("MEMTRACE_ID_TENANT", tenant)
        id_key.cache_clear()
        key = id_key()
        assert key == IdKey(KEY.encode(), tenant)
        left = default_policy().attributes({"user.id": "alice"})["user.id"]
        assert left == key.digest("user", "alice")
        assert key.made(left)
        digests.add(left)
    assert len(digests) == 3


def test_a_policys_own_tenant_comes_first() -> None:
    assert IdKey(KEY.encode(), "acme").digest("user", "a", "umbrella") == IdKey(KEY.encode()).digest(
        "user", "a", "umbrella"
    )


@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        ("MEMTRACE_ID_TENANT", "x" * 129, "MEMTRACE_ID_TENANT is no name"),
        ("MEMTRACE_ID_TENANT", " acme", "MEMTRACE_ID_TENANT is no name"),
        ("MEMTRACE_ID_TENANT", "ac\nme", "MEMTRACE_ID_TENANT is no name"),
        ("MEMTRACE_ID_KEY", "hunter2", "MEMTRACE_ID_KEY is shorter than 32 bytes"),
        ("MEMTRACE_ID_KEY_FILE", "/nowhere/at/all", "MEMTRACE_ID_KEY_FILE cannot be read"),
    ],
)
def test_a_bad_value_is_one_line_and_ids_are_dropped(
    name: str, value: str, said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MEMTRACE_ID_KEY", KEY)
    monkeypatch.setenv(name, value)
    with pytest.warns(IdKeyWarning, match=said) as warned:
        policy = default_policy()
    assert len(warned) == 1
    assert "\n" not in str(warned[0].message)
    assert value not in str(warned[0].message)
    assert policy.attributes({"user.id": "alice"}) == {}


def test_without_a_key_there_is_one_of_this_process_never_none() -> None:
    with pytest.warns(IdKeyWarning, match="not set"):
        left = default_policy().attributes({"user.id": "alice"})
    assert "alice" not in str(left)
    assert left["user.id"]


def test_the_key_may_be_a_file(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "key").write_text(KEY + "\n")
    monkeypatch.setenv("MEMTRACE_ID_KEY_FILE", str(tmp_path / "key"))
    assert id_key() == IdKey(KEY.encode())


def test_neither_key_nor_tenant_is_in_a_repr() -> None:
    assert repr(IdKey(KEY.encode(), "acme")) == "IdKey()"


def test_the_warning_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "key").write_text("hunter2")
    code = "from memtrace.export import default_policy; default_policy(); default_policy()"
    environment = {"MEMTRACE_ID_KEY_FILE": str(tmp_path / "key"), "PYTHONPATH": str(Path(__file__).parent.parent)}
    ended = subprocess.run(
        [sys.executable, "-c", code], env=environment, cwd=tmp_path, capture_output=True, text=True, check=True
    )
    (line,) = ended.stderr.splitlines()
    assert line.endswith("IdKeyWarning: MEMTRACE_ID_KEY_FILE is shorter than 32 bytes; ids are dropped")
