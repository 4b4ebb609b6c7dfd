"""Erasing that something cuts short, at every point, and erasing while others write."""

from __future__ import annotations

import errno
import json
import os
import shutil
import stat
import subprocess
import sys
from contextlib import nullcontext, suppress
from pathlib import Path

import pytest
from turns_recorded import text_of, turn_of

from memtrace.errors import UsageError
from memtrace.export import LocalRecord, erase, recorded
from memtrace.export.record_files import BEGUN

pytestmark = pytest.mark.filterwarnings("ignore::memtrace.identity.IdKeyWarning")

CUT_SHORT = """
import os, signal, sys
from pathlib import Path
from memtrace.errors import UsageError
from memtrace.export import erase
record, point, how = Path(sys.argv[1]), int(sys.argv[2]), sys.argv[3]
left = point
def cut(event, about):
    global left
    touches = event in ("open", "os.rename", "os.remove") and str(about[0]).startswith(str(record))
    left -= touches
    if touches and left == 0:
        if how == "killed":
            os.kill(os.getpid(), signal.SIGKILL)
        raise OSError(5, "Input/output error")
sys.addaudithook(cut)
try:
    erase(record, "alice")
except UsageError as error:
    sys.exit(7 if "erase again" in str(error) else 1)
"""
"""Erase alice; at the so-many-eth time that it touches the record, be killed, or be told that the disk is broken."""

WRITING = """
import sys
from turns_recorded import turn_of
from memtrace.export import LocalRecord
record = LocalRecord(sys.argv[1], max_bytes=400_000)
spans = [*turn_of("alice", "swordfish"), *turn_of("bob", "halibut")]
print("ready", flush=True)
for _ in range(100):
    assert record.export(spans).name == "SUCCESS"
"""


def cut_short(record: Path, point: int, how: str) -> int:
    arguments = [sys.executable, "-c", CUT_SHORT, str(record), str(point), how]
    return subprocess.run(arguments, env=environment(), check=False, capture_output=True).returncode


def environment() -> dict[str, str]:
    places = [str(Path(__file__).parent.parent), str(Path(__file__).parent)]
    return {**os.environ, "PYTHONPATH": os.pathsep.join(places), "MEMTRACE_ID_KEY": "k" * 32}


@pytest.fixture
def begun(tmp_path: Path) -> Path:
    """A record of three files: each of alice's two traces is named in one of them, and has words in the other."""
    place = tmp_path / "record"
    first, second, bob = turn_of("alice", "swordfish"), turn_of("alice", "swordfish too"), turn_of("bob", "halibut")
    files = [[first[1], second[0]], [bob[0], first[0]], [bob[1], second[1]]]
    for millis, spans in enumerate(files, 1_000_000_000_000):
        LocalRecord(tmp_path / "one", max_age=10**10).export(spans)
        place.mkdir(exist_ok=True)
        next((tmp_path / "one").glob("*.jsonl")).rename(place / f"spans-{millis}.jsonl")
    return place


@pytest.mark.parametrize(("how", "status"), [("killed", -9), ("broken", 7)])
def test_it_is_finished_by_erasing_again_wherever_it_was_cut(
    how: str, status: int, begun: Path, tmp_path: Path
) -> None:
    half_done = 0
    for point in range(1, 60):
        record = tmp_path / str(point)
        shutil.copytree(begun, record)
        ended = cut_short(record, point, how)
        half_done += 0 < len(list(recorded(record))) - 2 < 4
        if ended == 0:
            break
        assert ended == status
        erase(record, "alice")
        assert sorted(path.suffix for path in record.iterdir()) == ["", ".jsonl", ".jsonl"], point
        assert "swordfish" not in text_of(record), point
        assert len(list(recorded(record))) == 2
    assert point > 10
    assert half_done > 2


@pytest.mark.parametrize(("number", "left"), [(errno.EINVAL, 2), (errno.ENOTSUP, 2), (errno.EIO, 6)])
def test_a_directory_that_cannot_be_synced_is_no_hindrance_unless_the_disk_is_broken(
    number: int, left: int, begun: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fsync(descriptor: int) -> None:
        if stat.S_ISDIR(os.fstat(descriptor).st_mode):
            raise OSError(number, "no")

    monkeypatch.setattr(os, "fsync", fsync)
    with suppress(UsageError) if number == errno.EIO else nullcontext():
        erase(begun, "alice")
    assert len(list(recorded(begun))) == left


def test_who_erases_another_user_finishes_it_too(begun: Path) -> None:
    point, left = 0, 6
    while left == 6:
        point += 1
        cut_short(begun, point, "killed")
        left = len(list(recorded(begun)))
    assert (begun / BEGUN).stat().st_mode & 0o777 == 0o600
    assert "alice" not in (begun / BEGUN).read_text()
    assert erase(begun, "carol") == left - 2
    assert "swordfish" not in text_of(begun)


@pytest.mark.parametrize("content", ["{", "5", "\xff"])
def test_a_note_that_cannot_be_read_is_one_line_and_nothing_goes(content: str, begun: Path) -> None:
    (begun / BEGUN).write_text(content, "latin-1")
    with pytest.raises(UsageError, match="cannot be read: remove it, and erase those users again"):
        erase(begun, "alice")
    assert len(list(recorded(begun))) == 6


def test_what_another_process_writes_meanwhile_is_neither_lost_nor_cut(tmp_path: Path) -> None:
    arguments = [sys.executable, "-c", WRITING, str(tmp_path)]
    with subprocess.Popen(arguments, env=environment(), stdout=subprocess.PIPE, text=True) as writer:
        assert writer.stdout
        assert writer.stdout.readline() == "ready\n"
        erased = 0
        while writer.poll() is None:
            erased += erase(tmp_path, "alice")
    assert writer.returncode == 0
    assert erased + erase(tmp_path, "alice") == 100 * 2
    assert len(list(recorded(tmp_path))) == 100 * 2
    for file in tmp_path.glob("*.jsonl"):
        assert all(json.loads(line) for line in file.read_text().splitlines())
