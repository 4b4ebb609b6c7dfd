from __future__ import annotations

import fcntl
import json
import os
import stat
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export import SpanExportResult
from turns_recorded import text_of, turn_of

from memtrace import cli
from memtrace.errors import UsageError
from memtrace.export import LocalRecord, RecentSpans, erase, losses, recorded, withheld
from memtrace.identity import IdKey, id_key


@pytest.fixture(autouse=True)
def _id_key(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("MEMTRACE_ID_KEY", "k" * 32)
    id_key.cache_clear()
    withheld.reset()
    yield
    id_key.cache_clear()


class Clock:
    now = 1_000_000.0

    def __call__(self) -> float:
        return self.now


def test_a_record_is_whole_and_in_the_collectors_format(tmp_path: Path) -> None:
    LocalRecord(tmp_path / "record").export(turn_of("alice", "My code is swordfish."))
    (file,) = (tmp_path / "record").glob("*.jsonl")
    (line,) = file.read_text().splitlines()
    assert set(json.loads(line)) == {"resourceSpans"}
    spans = {span["name"]: span for span in recorded(tmp_path / "record")}
    said = {each["key"]: each["value"].get("stringValue") for each in spans["chat m"]["attributes"]}
    assert "swordfish" in said["gen_ai.request.messages"]
    assert any(each["value"].get("stringValue") == "alice" for each in spans["invoke_agent pet-shop"]["attributes"])


def test_it_is_its_owners_alone(tmp_path: Path) -> None:
    old = os.umask(0)
    try:
        LocalRecord(tmp_path / "record").export(turn_of("alice", "Hello."))
    finally:
        os.umask(old)
    assert stat.S_IMODE((tmp_path / "record").stat().st_mode) == 0o700
    assert {stat.S_IMODE(file.stat().st_mode) for file in (tmp_path / "record").iterdir()} == {0o600}


def test_it_never_grows_past_its_size_and_keeps_the_newest(tmp_path: Path) -> None:
    record = LocalRecord(tmp_path, max_bytes=64_000, clock=Clock())
    for number in range(60):
        record.export(turn_of("alice", f"{number} " + "x" * 2000))
        assert sum(file.stat().st_size for file in tmp_path.glob("*.jsonl")) <= 64_000
    text = text_of(tmp_path)
    assert "59 xxx" in text
    assert '\\"0 xxx' not in text
    assert losses() == {}


def test_a_span_that_is_longer_than_a_file_may_be_is_left_out_and_counted(tmp_path: Path) -> None:
    record = LocalRecord(tmp_path, max_bytes=64_000)
    record.export(turn_of("alice", "x" * 20_000))
    assert [span["name"] for span in recorded(tmp_path)] == ["invoke_agent pet-shop"]
    assert losses() == {"recorded spans": 1}


@pytest.mark.parametrize("opened", [1_001, 1_764_000_000_001])
def test_what_does_not_fit_goes_to_a_new_file_whatever_the_clock_says(opened: int, tmp_path: Path) -> None:
    full = tmp_path / f"spans-{opened:013d}.jsonl"
    full.write_bytes(b"x" * 8_000)
    LocalRecord(tmp_path, max_bytes=64_000, clock=lambda: 0.0).export(turn_of("alice", "-"))
    assert sorted(tmp_path.glob("*.jsonl")) == [full, tmp_path / f"spans-{opened + 1:013d}.jsonl"]
    assert full.stat().st_size == 8_000


def test_what_is_older_than_its_age_goes(tmp_path: Path) -> None:
    clock = Clock()
    record = LocalRecord(tmp_path, max_age=80, clock=clock)
    record.export(turn_of("alice", "first"))
    clock.now += 70
    record.export(turn_of("alice", "second"))
    assert "first" in text_of(tmp_path)
    clock.now += 30
    record.export(turn_of("alice", "third"))
    text = text_of(tmp_path)
    assert "first" not in text
    assert "second" in text
    clock.now += 1000
    LocalRecord(tmp_path, max_age=80, clock=clock)
    assert "third" not in text_of(tmp_path)


def test_a_line_that_a_crash_cut_short_costs_nothing_but_itself(tmp_path: Path) -> None:
    record = LocalRecord(tmp_path)
    record.export(turn_of("alice", "first"))
    (file,) = tmp_path.glob("*.jsonl")
    with file.open("ab") as stream:
        stream.write(b'{"resourceSpans":[{"sco')
    record.export(turn_of("alice", "second"))
    assert len(list(recorded(tmp_path))) == 4


def test_several_writers_share_one_record(tmp_path: Path) -> None:
    batches = [turn_of("alice", f"w{number}") for number in range(4)]
    writers = [LocalRecord(tmp_path, max_bytes=10**6) for _ in batches]

    def write(record: LocalRecord, spans: list[ReadableSpan]) -> None:
        for _ in range(10):
            record.export(spans)

    threads = [threading.Thread(target=write, args=pair) for pair in zip(writers, batches, strict=True)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(list(recorded(tmp_path))) == 4 * 10 * 2


def test_a_writer_is_alone_with_the_record(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tried, append = [], LocalRecord._append

    def trying(self: LocalRecord, line: bytes) -> None:
        with (tmp_path / ".lock").open() as other, pytest.raises(BlockingIOError):
            fcntl.flock(other, fcntl.LOCK_EX | fcntl.LOCK_NB)
        tried.append(line)
        append(self, line)

    monkeypatch.setattr(LocalRecord, "_append", trying)
    LocalRecord(tmp_path).export(turn_of("alice", "-"))
    assert len(tried) == 1


class TestErasing:
    def test_removes_every_trace_of_a_user_and_nobody_elses(self, tmp_path: Path) -> None:
        record = LocalRecord(tmp_path)
        record.export([*turn_of("alice", "swordfish"), *turn_of("bob", "halibut")])
        record.export(turn_of("alice", "swordfish again"))
        record.export(turn_of("alice2", "herring"))
        assert erase(tmp_path, "alice") == 4
        text = text_of(tmp_path)
        assert "swordfish" not in text
        assert '"alice"' not in text
        assert "halibut" in text
        assert "herring" in text

    def test_knows_a_user_by_digest_where_there_is_no_id(self, tmp_path: Path) -> None:
        LocalRecord(tmp_path).export(turn_of("alice", "-", content=False))
        assert "alice" not in text_of(tmp_path)
        assert IdKey(b"k" * 32).digest("user", "alice") in text_of(tmp_path)
        assert erase(tmp_path, "alice") == 2
        assert list(recorded(tmp_path)) == []

    def test_leaves_the_record_its_owners_alone(self, tmp_path: Path) -> None:
        LocalRecord(tmp_path).export([*turn_of("alice", "-"), *turn_of("bob", "-")])
        erase(tmp_path, "alice")
        assert {stat.S_IMODE(file.stat().st_mode) for file in tmp_path.iterdir()} == {0o600}

    def test_of_nobody_is_refused(self, tmp_path: Path) -> None:
        LocalRecord(tmp_path).export(turn_of("alice", "-"))
        with pytest.raises(UsageError, match="name a user"):
            erase(tmp_path, "")
        assert erase(tmp_path, "ali") == 0
        assert len(list(recorded(tmp_path))) == 2

    def test_from_the_command_line(self, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        LocalRecord(tmp_path).export(turn_of("alice", "swordfish"))
        assert cli.main(["record", "erase", "alice", "--record", str(tmp_path)]) == 0
        assert capsys.readouterr().out == "2 spans erased\n"
        assert "swordfish" not in text_of(tmp_path)

    def test_of_a_record_that_is_not_there_is_misuse(self, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        assert cli.main(["record", "erase", "alice", "--record", str(tmp_path / "none")]) == cli.MISUSE
        assert "no record" in capsys.readouterr().err


def test_a_record_that_cannot_be_written_is_one_clear_line(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(UsageError, match="cannot be written to"):
        LocalRecord(tmp_path / "file")
    with pytest.raises(UsageError, match="max_bytes=0 is no bound of a record"):
        LocalRecord(tmp_path / "record", max_bytes=0)


def test_a_record_that_goes_away_breaks_nothing(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    record = LocalRecord(tmp_path / "record", max_bytes=64_000)
    (tmp_path / "record" / ".lock").unlink()
    (tmp_path / "record").rmdir()
    for said in ("swordfish", "swordfish" * 2_000):
        withheld.reset()
        assert record.export(turn_of("alice", said)) is SpanExportResult.FAILURE
        assert losses() == {"recorded spans": 2}
    assert "swordfish" not in caplog.text


def test_recent_spans_are_bounded() -> None:
    recent = RecentSpans(3)
    recent.export([*turn_of("a", "1"), *turn_of("a", "2")])
    assert len(recent.spans) == 3
