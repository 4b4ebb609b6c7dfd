"""The plane of the scripts: a process of its own with keys of the command line, behind a line that can fail."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import httpx
import pytest

from memtrace.harness.plane.faults import FAULTS
from memtrace.harness.plane.front import Answer, Asked
from memtrace.harness.plane.line import Line
from memtrace.harness.plane.scripted import ScriptedPlane, make_plane
from memtrace.harness.plane.server import plane_server
from memtrace.harness.record.events import Curated, PlaneAsked, PlaneHolds
from memtrace.harness.record.recorder import Recorder
from memtrace.harness.services.server import NotHere
from memtrace.harness.session import make_suite
from memtrace.harness.stage import NotExercised


@contextmanager
def scripted(recorder: Recorder) -> Iterator[ScriptedPlane]:
    plane = make_plane(recorder, lambda: 0.0)
    try:
        yield plane
    finally:
        plane.close()


@pytest.fixture
def seen() -> list[tuple[str, int]]:
    return []


@pytest.fixture
def line(seen: list[tuple[str, int]]) -> Iterator[Line]:
    line = Line(lambda _: Answer(200, {}, b'{"facts": []}'), lambda asked, status: seen.append((asked.target, status)))
    yield line
    line.close()


def test_scripts_share_a_plane_in_another_process_and_see_their_own_agents_alone() -> None:
    recorder = Recorder()
    with scripted(recorder) as one, scripted(recorder) as other:
        record = one.curate("line-one", "We close at six.")
        other.curate("line-other", "We close at seven.")
        one.propose("line-one", "We never close.")
        for plane in (one, other):
            plane.look()
        one.retire(record)
        one.look()
    history = recorder.history()
    held = [event.facts for event in history.of(PlaneHolds)]
    assert held == [{"line-one": ("We close at six.",)}, {"line-other": ("We close at seven.",)}, {"line-one": ()}]
    assert [event.op for event in history.of(Curated)] == ["approve", "approve", "propose", "retire"]
    assert plane_server() is plane_server()
    health = plane_server().answer(Asked("GET", "/health", {}))
    assert (health.status, health.headers["x-memtrace-plane"]) == (200, "1")


def test_a_request_is_recorded_without_its_key_and_as_no_answer_where_none_arrives() -> None:
    recorder = Recorder()
    with scripted(recorder) as plane:
        for fault in ("", "reset", "503"):
            plane.fault(fault)
            with httpx.Client(headers={"X-API-Key": plane.key}) as client:
                try:
                    client.get(f"{plane.url}/public/v1/memory/facts", params={"agent_id": "line"})
                except httpx.ReadError:
                    assert fault == "reset"
    asked = list(recorder.history().of(PlaneAsked))
    assert [(each.fault, each.status) for each in asked] == [("", 200), ("reset", 0), ("503", 503)]
    assert plane.key not in repr(asked)


def test_what_a_black_hole_held_back_does_not_arrive_after_it(line: Line, seen: list[tuple[str, int]]) -> None:
    line.fault("black hole")
    with pytest.raises(httpx.ReadTimeout):
        httpx.get(f"{line.url}/early", timeout=0.05)
    line.fault()
    assert httpx.get(f"{line.url}/late").status_code == 200
    assert seen == [("/late", 200)]


def test_every_fault_has_one_home_and_an_unknown_one_is_no_fault(line: Line) -> None:
    assert len(set(FAULTS)) == len(FAULTS)
    with pytest.raises(KeyError):
        line.fault("rain")


def test_a_script_is_not_exercised_where_no_plane_can_be_served(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail() -> None:
        raise NotHere("starlette is missing")

    monkeypatch.setattr("memtrace.harness.plane.scripted.plane_server", fail)
    with (
        make_suite("memtrace.broken.tiny:TinyMemory") as suite,
        suite.stage("a script") as stage,
        pytest.raises(NotExercised, match="no plane can be served here: starlette is missing"),
    ):
        stage.plane.look()
