"""Second processes: started, told what to do, heard, forked, killed; and never left behind."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import imported_early
import pytest

from memtrace.errors import AdapterError
from memtrace.harness.record.events import CalledBack, FactWritten, ProcessEnded, ProcessStarted
from memtrace.harness.running import interpreters
from memtrace.harness.running.interpreters import Interpreters
from memtrace.harness.running.packing import pack, unpack
from memtrace.harness.scripted_model.scripting import use_tool
from memtrace.harness.session import Suite, make_suite
from memtrace.harness.stage import Stage
from memtrace.model import Author, Caller, Fact, Message, Outcome, ToolCall, Unresolved

Open = Callable[..., Stage]
TINY = "memtrace.broken.tiny:TinyMemory"
EARLY = "imported_early:TellsWhoImportedIt"


@pytest.fixture(scope="module")
def suites() -> Iterator[Callable[[str], Suite]]:
    with ExitStack() as stack:
        made: dict[str, Suite] = {}

        def suite(memory: str) -> Suite:
            if memory not in made:
                made[memory] = stack.enter_context(make_suite(memory))
            return made[memory]

        yield suite


@pytest.fixture
def play(suites: Callable[[str], Suite]) -> Iterator[Open]:
    with ExitStack() as stack:
        yield lambda memory=TINY, **options: stack.enter_context(suites(memory).stage("a script", options))


def processes(stage: Stage) -> list[tuple[str, str]]:
    """Which processes began and ended, in order, and how."""
    events = stage.history().of(ProcessStarted, ProcessEnded)
    return [(event.process, getattr(event, "how", "start")) for event in events]


def test_a_second_process_runs_the_same_system_on_the_same_data(play: Open) -> None:
    stage = play()
    alice, word = stage.caller(), stage.canary()
    stage.add(alice, f"Alice likes {word}.")
    other = stage.process()
    asked = other.turn(alice, "What do I like?")
    history = stage.history()
    [call] = history.turns[asked.turn].answers
    assert word in call.prompt.text
    assert call.exact
    assert history.turns[asked.turn].process == "process-1"
    assert next(history.of(ProcessStarted)).pid != 0


def test_its_spans_and_callbacks_are_of_the_same_history(play: Open) -> None:
    stage = play()
    other = stage.process()
    turn = other.turn(stage.caller(), "Where is it?", says=[use_tool("the key"), "There."], tool_returns=["In a box."])
    history = stage.history()
    spans = [span for span in history.spans if span.process == "process-1"]
    assert {span.turn for span in spans} == {turn.turn}
    assert any(span.prompt is not None for span in spans)
    called = [(event.point, event.turn, event.attribution) for event in history.of(CalledBack)]
    assert {("resolve", turn.turn, "exact"), ("tool", turn.turn, "exact"), ("guard", turn.turn, "exact")} <= set(called)


def test_what_is_raised_here_is_raised_there(play: Open) -> None:
    stage = play()
    failed = stage.process().turn(stage.caller(), "Hello.", fails="after_run", expect=Outcome.FAILED)
    assert failed.outcome is Outcome.FAILED
    assert "after_run failed" in failed.error


@pytest.mark.parametrize("why", list(Unresolved))
def test_a_caller_who_cannot_be_told_cannot_be_told_there_either(play: Open, why: Unresolved) -> None:
    stage = play()
    nobody = stage.anonymous(why)
    stage.process().turn(nobody, f"I am {stage.canary()}.")
    assert not (stage.directory / "tiny.json").exists()


def test_its_clock_is_the_one_of_the_script(play: Open) -> None:
    stage = play("second_systems:TellsTheTime")
    other = stage.process()
    stage.advance(100_000)
    before = stage.callbacks.clock()
    there = float(other.search(stage.caller(), "What time is it?")[0])
    assert before <= there <= stage.callbacks.clock()


def test_what_it_prints_is_no_answer_and_there_is_nothing_to_read(play: Open, capfd: Any) -> None:
    stage = play("second_systems:Talkative")
    assert stage.process().turn(stage.caller(), "Hello.").outcome is Outcome.OK


def test_a_process_that_cannot_open_the_system_says_why(play: Open) -> None:
    stage = play("second_systems:once")
    stage.open()
    with pytest.raises(AdapterError, match=r"second process could not open the system: .*FileExistsError"):
        stage.process()
    assert processes(stage) == [("process-1", "start"), ("process-1", "kill")]


def test_a_turn_in_flight_ends_killed_with_its_process(play: Open) -> None:
    stage = play()
    other = stage.process()
    with stage.hold("model") as held:
        running = other.start(stage.caller(), "Hello.", expect=Outcome.KILLED)
        assert held.reached(20)
        other.kill()
        assert running.result().outcome is Outcome.KILLED
    assert other.turn(stage.caller(), "Hello?", expect=Outcome.KILLED).outcome is Outcome.KILLED
    assert processes(stage) == [("process-1", "start"), ("process-1", "kill")]


def test_a_process_that_is_closed_ends_by_itself(play: Open) -> None:
    stage = play()
    other = stage.process()
    other.turn(stage.caller(), "Hello.")
    other.host.close()
    assert processes(stage) == [("process-1", "start"), ("process-1", "exit")]


def test_a_fork_goes_on_with_the_system_that_was_opened(play: Open) -> None:
    stage = play()
    alice, server = stage.caller(), stage.process()
    server.turn(alice, f"I am {stage.canary()}.")
    with server.forked():
        inside = server.turn(alice, "Who am I?")
    after = server.turn(alice, "And now?")
    turns = stage.history().turns
    # Windows are kept in the process: the child has its parent's, the parent nothing of the child's.
    assert [len(turns[turn.turn].answers[0].prompt.messages) for turn in (inside, after)] == [5, 5]
    assert [turns[turn.turn].process for turn in (inside, after)] == ["process-1-fork", "process-1"]
    [_, fork] = stage.history().of(ProcessStarted)
    assert (fork.process, fork.forked_from) == ("process-1-fork", "process-1")
    assert processes(stage)[-1] == ("process-1-fork", "exit")


def test_a_fork_that_dies_is_told_and_its_parent_goes_on(play: Open) -> None:
    stage = play("second_systems:DiesWhenTold")
    alice, server = stage.caller(), stage.process()
    with server.forked():
        assert server.turn(alice, "Die.", expect=Outcome.KILLED).outcome is Outcome.KILLED
    assert server.turn(alice, "Hello.").outcome is Outcome.OK
    assert processes(stage)[-1] == ("process-1-fork", "kill")


def test_a_process_is_killed_after_the_step_that_was_chosen(play: Open) -> None:
    stage = play()
    alice = stage.caller()
    stage.add(alice, "Alice likes tea.")
    found = []
    for steps_left in (0, 1, 2):
        doomed, text = stage.process(), f"Alice likes {stage.canary()}."
        steps = [doomed.steps_of(lambda: doomed.add(alice, f"Alice likes {stage.canary()}.")) for _ in range(2)]  # noqa: B023
        assert steps[0] == steps[1] > 0
        doomed.kill_during(lambda: doomed.add(alice, text), last_step=steps[0] - steps_left)  # noqa: B023
        found.append(text in [fact.text for fact in stage.facts(alice)])
        assert list(stage.history().of(FactWritten))[-1].error == f"{doomed.host.name} is gone"
    assert found == [True, True, False]  # the last steps: another file takes the place, the lock is let go


def test_a_process_takes_the_surroundings_of_its_day(
    play: Open, monkeypatch: pytest.MonkeyPatch, tmp_path: Any
) -> None:
    stage = play("second_systems:TellsTheTime")
    stage.process()  # the next is begun meanwhile
    monkeypatch.setenv("SECOND_SYSTEMS", "anew")
    monkeypatch.chdir(tmp_path)
    _, variable, directory = stage.process().search(stage.caller(), "Where are we?")
    assert (variable, directory) == ("anew", str(tmp_path))


@pytest.mark.skipif(not interpreters._FORKS, reason="second processes are not forked here")
def test_processes_are_forked_from_one_that_has_imported_what_may_be(play: Open) -> None:
    stage = play(EARLY)
    told = [stage.process().search(stage.caller(), "Who?") for _ in range(3)]
    importers, askers = ({who for who, _ in told}, {who for _, who in told})
    assert len(importers) == 1
    assert len(askers) == 3
    assert importers.isdisjoint({*askers, str(os.getpid())})


@pytest.mark.skipif(not interpreters._FORKS, reason="second processes are not forked here")
def test_a_process_has_imported_nothing_of_another_system(play: Open) -> None:
    play(EARLY)
    with Interpreters() as source:
        forked_with = []
        for factory in (EARLY, EARLY, TINY):
            source.take(factory).discard()
            assert source._nursery is not None
            forked_with.append((source._nursery, source._nursery.modules))
    (first, modules), again, (other, none) = forked_with
    assert again == (first, modules)
    assert modules == imported_early.IMPORTED_BEFORE_FORKS
    assert other is not first
    assert none == ()
    assert first._process.returncode == 0


_ORPHANS = f"""
import os, signal, sys
from memtrace.harness.session import make_suite
with make_suite({TINY!r}) as suite, suite.stage("a script") as stage:
    alice, other = stage.caller(), stage.process()
    with stage.hold("model") as held:
        other.start(alice, "Hello.")
        held.reached(20)
        print("began", flush=True)
        os.kill(os.getpid(), signal.SIGKILL)
"""


def test_no_process_outlives_its_parent() -> None:
    # All of them have this pipe as their standard output: it ends with the last of them.
    done = subprocess.run([sys.executable, "-c", _ORPHANS], stdout=subprocess.PIPE, timeout=60, check=False)
    assert done.stdout == b"began\n"
    assert done.returncode == -9


def test_where_forks_are_not_safe_each_is_a_program_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(interpreters, "_FORKS", False)
    with make_suite(TINY) as suite, suite.stage("a script") as stage:
        alice = stage.caller()
        one, other = stage.process(), stage.process()
        assert one.turn(alice, "Hello.").outcome is Outcome.OK
        one.kill()
        other.host.close()
        assert processes(stage)[2:] == [("process-1", "kill"), ("process-2", "exit")]


def test_nothing_is_left_of_a_suite(play: Open) -> None:
    with make_suite(TINY) as suite:
        with suite.stage("a script") as stage:
            stage.process()
        assert processes(stage) == [("process-1", "start"), ("process-1", "exit")]
        nursery, ahead = suite._interpreters._nursery, suite._interpreters._ahead
    assert ahead is not None
    assert ahead.events.closed
    assert nursery is None or nursery._process.returncode == 0


@pytest.mark.skipif(not interpreters._FORKS, reason="second processes are not forked here")
def test_suites_may_share_what_their_processes_are_forked_from() -> None:
    source = Interpreters()
    nurseries = []
    with ExitStack() as stack:
        for _ in range(2):
            suite = stack.enter_context(make_suite(TINY, interpreters=source))
            with suite.stage("a script") as stage:
                stage.process()
            nurseries.append(source._nursery)
    assert None is not nurseries[0] is nurseries[1]
    assert source._nursery is None


def test_the_interpreter_that_was_started_ahead_serves_the_next_test(monkeypatch: pytest.MonkeyPatch) -> None:
    with make_suite(TINY) as suite:
        with suite.stage("a script") as stage:
            stage.process()
        ahead = suite._interpreters._ahead
        monkeypatch.setenv("PYTEST_CURRENT_TEST", "test_next.py::test_next (call)")
        with suite.stage("the next") as stage:
            assert stage.process().host._interpreter is ahead


@pytest.mark.parametrize(
    "value",
    [
        None,
        [1, 2.5, "text", True],
        {"caller": Caller("alice", "s", "p", "a"), "limit": None, "deep": [{"of": Fact("1", "tea")}]},
        Caller(unresolved=Unresolved.EMPTY),
        [Message(Author.ASSISTANT, "hm", (ToolCall("1", "lookup"),))],
        {"type": "Caller", "fields": {}},
    ],
)
def test_a_value_comes_back_as_it_was(value: Any) -> None:
    assert unpack(pack(value)) == value


def test_a_value_that_has_no_form_in_json_travels_as_text() -> None:
    assert pack((1, ValueError("no"))) == [1, "no"]
