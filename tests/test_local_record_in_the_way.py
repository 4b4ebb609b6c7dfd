"""A directory that others write to, or wrote to, and what lies in it that is no record."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest
from opentelemetry.sdk.trace.export import SpanExportResult
from turns_recorded import text_of, turn_of

from memtrace import cli
from memtrace.errors import UsageError
from memtrace.export import LocalRecord, erase, losses, recorded, withheld
from memtrace.identity import id_key

LAST = "spans-9999999999999.jsonl"
root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can be somebody else")


@pytest.fixture(autouse=True)
def _id_key(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("MEMTRACE_ID_KEY", "k" * 32)
    id_key.cache_clear()
    withheld.reset()
    yield
    id_key.cache_clear()


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_the_directories_above_it_are_its_owners_alone_too(tmp_path: Path) -> None:
    old = os.umask(0)
    try:
        LocalRecord(tmp_path / "a" / "b" / "record")
    finally:
        os.umask(old)
    assert [mode(tmp_path / place) for place in ("a", "a/b", "a/b/record")] == [0o700] * 3


def test_a_file_that_others_could_read_no_longer_is(tmp_path: Path) -> None:
    record = LocalRecord(tmp_path)
    record.export(turn_of("alice", "-"))
    (file,) = tmp_path.glob("*.jsonl")
    file.chmod(0o644)
    record.export(turn_of("alice", "-"))
    assert mode(file) == 0o600


def test_a_link_a_pipe_or_a_directory_of_that_name_is_left_alone(tmp_path: Path) -> None:
    precious, record = tmp_path / "precious", tmp_path / "record"
    precious.write_text("precious")
    for number, put in enumerate((lambda path: path.symlink_to(precious), os.mkfifo, Path.mkdir)):
        place = record / str(number)
        place.mkdir(parents=True)
        put(place / LAST)
        assert LocalRecord(place).export(turn_of("alice", "-")) is SpanExportResult.SUCCESS
        assert len(list(recorded(place))) == 2
        assert erase(place, "alice") == 2
    assert precious.read_text() == "precious"
    assert losses() == {}


@root
def test_a_file_that_somebody_else_put_there_is_not_written_to(tmp_path: Path) -> None:
    (tmp_path / LAST).touch(0o666)
    os.chown(tmp_path / LAST, 12345, 12345)
    LocalRecord(tmp_path).export(turn_of("alice", "-"))
    assert (tmp_path / LAST).stat().st_size == 0
    assert len(list(recorded(tmp_path))) == 2


@root
def test_who_erases_for_another_leaves_the_record_theirs(tmp_path: Path) -> None:
    LocalRecord(tmp_path).export([*turn_of("alice", "-"), *turn_of("bob", "-")])
    (tmp_path / ".lock").unlink()
    for path in (tmp_path, *tmp_path.iterdir()):
        os.chown(path, 12345, 12345)
    assert erase(tmp_path, "alice") == 2
    assert {(path.name, path.stat().st_uid) for path in tmp_path.iterdir()} == {
        (".lock", 12345),
        (next(tmp_path.glob("*.jsonl")).name, 12345),
    }


def test_an_erasure_that_was_interrupted_leaves_nothing_behind(tmp_path: Path) -> None:
    LocalRecord(tmp_path).export(turn_of("alice", "swordfish"))
    (file,) = tmp_path.glob("*.jsonl")
    file.with_suffix(".new").write_bytes(file.read_bytes())
    erase(tmp_path, "alice")
    assert "swordfish" not in text_of(tmp_path)


@pytest.mark.parametrize(
    "line",
    [
        b'{"resourceSpans": 5, "x": "swordfish"}',
        b'{"resourceSpans": [{"scopeSpans": null, "x": "swordfish"}]}',
        b'{"resourceSpans": [{"scopeSpans": [{"spans": ["swordfish"]}]}]}',
        b'["swordfish"]',
        b"\xff\x00 swordfish",
        b'{"resourceSpans": [{"sco swordfish',
    ],
)
def test_a_line_that_is_no_batch_is_passed_over_and_erased(line: bytes, tmp_path: Path) -> None:
    LocalRecord(tmp_path).export(turn_of("bob", "-"))
    (file,) = tmp_path.glob("*.jsonl")
    with file.open("ab") as stream:
        stream.write(line + b"\n")
    assert len(list(recorded(tmp_path))) == 2
    assert erase(tmp_path, "alice") == 0
    assert b"swordfish" not in file.read_bytes()
    assert len(list(recorded(tmp_path))) == 2


def test_an_erasure_that_fails_says_so_in_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    LocalRecord(tmp_path).export([*turn_of("alice", "-"), *turn_of("bob", "-")])
    monkeypatch.setattr(os, "fsync", full)
    assert cli.main(["record", "erase", "alice", "--record", str(tmp_path)]) == cli.MISUSE
    (line,) = capsys.readouterr().err.splitlines()
    assert "not all of 'alice' was erased" in line
    assert "No space left on device" in line
    assert list(tmp_path.glob("*.new")) == []
    assert len(list(recorded(tmp_path))) == 4


def full(_descriptor: int) -> None:
    raise OSError(28, "No space left on device")


@pytest.mark.parametrize("bound", [0, -1, float("nan"), float("inf"), True, "64"])
@pytest.mark.parametrize("name", ["max_bytes", "max_age"])
def test_a_bound_that_is_none_is_refused(name: str, bound: object, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=f"{name}=.* is no bound of a record"):
        LocalRecord(tmp_path / "record", **{name: bound})
    assert not (tmp_path / "record").exists()
