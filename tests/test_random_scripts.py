"""Random scripts: what is drawn, how it is played and told, and what it finds."""

from __future__ import annotations

import ast

import pytest

from memtrace.broken.tiny import TinyMemory
from memtrace.errors import UsageError
from memtrace.harness.random_scripts import Explorer, RandomScript, decode, encode
from memtrace.harness.random_scripts.lines import Add, Erase, GoOn, Leave, Look, Overlap, Pause, Turn
from memtrace.harness.random_scripts.playing import Player
from memtrace.harness.random_scripts.shrinking import simpler, smallest
from memtrace.harness.scenes.interleaving import Line, cancelled, interleave
from memtrace.harness.scripted_model.openai_api import Step
from memtrace.harness.scripted_model.scripting import call_tool, fails, use_tool
from memtrace.harness.scripted_model.server import ModelServer
from memtrace.harness.session import make_suite
from memtrace.harness.stage import Stage
from memtrace.identity import id_key
from memtrace.model import ToolCall, Unresolved, Verdict

TINY = "memtrace.broken.tiny:TinyMemory"
MANY = "memtrace.broken.tiny_tools:TinyTools"


class Bare(TinyMemory):
    """Claims turns alone."""

    capabilities = frozenset({"turns"})


class Moody(TinyMemory):
    """Fails now and then, for no reason."""

    def turn(self, caller, text):
        if self.windows:
            raise RuntimeError("not today")
        return super().turn(caller, text)


class Torn(TinyMemory):
    """Cannot be closed."""

    def close(self):
        raise RuntimeError("it is stuck")


@pytest.fixture(scope="module")
def server():
    with ModelServer() as running:
        yield running


@pytest.fixture
def exploring(server, monkeypatch):
    """Explorers of memories by name, on the model server that this module shares."""
    monkeypatch.setenv("MEMTRACE_ID_KEY", "0" * 64)
    id_key.cache_clear()

    def explore(memory: str) -> Explorer:
        suite = make_suite(memory)
        suite._server = server
        suite.probe()
        return Explorer(suite, "boundary_tests.test_scripts")

    yield explore
    id_key.cache_clear()


# What is drawn


def test_a_number_is_the_same_script_every_time_and_another_script_than_any_other(exploring) -> None:
    one, other = exploring(TINY), exploring(TINY)
    drawn = [one.draw(number, 0) for number in range(1, 20)]
    assert drawn == [other.draw(number, 0) for number in range(1, 20)]
    assert len(set(drawn)) == len(drawn)
    assert set(drawn).isdisjoint(one.draw(number, 1) for number in range(1, 20))


def test_nothing_is_drawn_that_the_system_does_not_claim(exploring) -> None:
    explorer = exploring(f"{__name__}:Bare")
    for number in range(1, 20):
        script = explorer.draw(number, 0)
        assert {type(line) for line in script.lines} <= {Turn, Overlap, Look}
        assert script.options == ()
        assert not explorer.play(script).complaints()


def test_a_script_survives_its_way_through_a_command_line(exploring) -> None:
    explorer = exploring(MANY)
    for number in range(1, 20):
        script = explorer.draw(number, 0)
        assert decode(encode(script)) == script


@pytest.mark.parametrize("code", ["", "eNox", "no code", "é", encode(RandomScript(()))[:-4]])
def test_a_code_that_was_not_copied_whole_is_one_clear_line(code: str) -> None:
    with pytest.raises(UsageError, match=r"^--script .* is no random script: copy it whole from a report$"):
        decode(code)


# How it is played


def test_any_part_of_a_script_can_be_played(exploring) -> None:
    explorer = exploring(MANY)
    for part in list(simpler(explorer.draw(7, 0)))[:15]:
        assert not explorer.play(part).complaints()


def test_what_is_printed_is_what_was_done(exploring) -> None:
    names = {
        "Line": Line, "Step": Step, "ToolCall": ToolCall, "Unresolved": Unresolved, "call_tool": call_tool,
        "cancelled": cancelled, "fails": fails, "interleave": interleave, "use_tool": use_tool,
    }  # fmt: skip
    explorer = exploring(MANY)
    for number in range(1, 13):
        with explorer.suite.stage("played") as stage, explorer.suite.stage("printed") as again:
            player = Player(stage, explorer.draw(number, 0))
            player.play()
            exec("\n".join(player.transcript.lines), {**names, "stage": again})
            assert _outcomes(again) == _outcomes(stage)


@pytest.mark.parametrize(
    ("kin", "names"),
    [
        ("nothing", ["alice", "bob", "carol"]),
        ("session", ["alice", "bob", "carol"]),
        ("user", ["alice", "alice_2", "alice_3"]),
        ("agent", ["alice", "alice_2", "carol"]),
    ],
)
def test_callers_who_are_one_user_have_one_name(exploring, kin: str, names: list[str]) -> None:
    with exploring(MANY).suite.stage("named") as stage:
        player = Player(stage, RandomScript((), callers=3, kin=kin))
        player.play()
    introduced = [line.partition(" = ")[0] for line in player.transcript.lines if "stage.caller" in line]
    assert introduced == names


def _outcomes(stage: Stage) -> list[tuple[str, object]]:
    return [(turn.via, turn.outcome) for turn in stage.history().turns.values()]


def test_a_turn_that_ends_as_it_cannot_is_told_with_its_script(exploring) -> None:
    explorer = exploring(f"{__name__}:Moody")
    script = RandomScript((Turn(0), Turn(0)))
    (complaint,) = explorer.play(script, "random script 1").complaints()
    assert complaint.startswith("random script 1 went astray: turn ")
    assert "ended failed, which is not ok: RuntimeError: not today" in complaint
    assert "stage.turn(alice, 'My locker code is " in complaint
    assert f"again: pytest --pyargs boundary_tests.test_scripts --memory {__name__}:Moody" in complaint


def test_a_script_that_breaks_off_is_told_and_the_next_is_played(exploring) -> None:
    explorer = exploring(TINY)
    explorer.suite.factory = Torn
    found = explorer.explore(2, seed=0)
    assert len(found) == 2
    assert all(
        "it broke off" in complaint and "it is stuck" in complaint for f in found for complaint in f.complaints()
    )


# What is found


FOUND = [
    ("authors:LearnsFromBoth", "authors.reply-never-a-fact"),
    ("processes_forgetting:ErasesFactsAlone", "processes.forget-user"),
    ("turns:KeepsOpenQuestions", "turns.failed-writes-nothing"),
    ("turns:EndlessWithoutWindow", "turns.window-is-bounded"),
    ("turns_ways:CachesResultsAsFacts", "turns.tool-traffic-never-a-fact"),
    ("users:MatchesPrefixes", "users.similar-ids-apart"),
    ("users:OneWindowForASession", "users.same-session-id-apart"),
    ("users:ShowsTheLastUsersPrompt", "users.unresolved-sees-only-agent-facts"),
]


@pytest.mark.parametrize(("memory", "rule"), FOUND)
def test_a_broken_memory_is_found_without_a_script_of_its_own(exploring, memory: str, rule: str) -> None:
    explorer = exploring(f"memtrace.broken.{memory}")
    scripts = (explorer.draw(number, 0) for number in range(1, 161))
    first = next((script for script in scripts if explorer.play(script).breaks(rule)), None)
    assert first is not None
    small = smallest(first, lambda script: explorer.play(script).breaks(rule), tries=30)
    assert len(small.lines) <= 4
    assert explorer.play(decode(encode(small))).breaks(rule)


def test_the_smallest_script_is_evidence_under_the_rule_it_breaks(exploring) -> None:
    explorer = exploring("memtrace.broken.users:OneWindowForASession")
    found = explorer.explore(10, seed=0)
    entries = [entry for one in found for entry in one.entries]
    (first, *_) = [e for e in entries if e.finding.rule == "users.same-session-id-apart" and _violated(e)]
    assert first.test.startswith("random script ")
    assert not first.own
    assert first.finding.evidence[-1].title == "the script"
    lines = first.finding.evidence[-1].text
    ast.parse(lines)
    assert lines.count("stage.turn(") <= 4
    assert first.rerun.startswith(
        "pytest --pyargs boundary_tests.test_scripts --memory memtrace.broken.users:OneWindow"
    )


def _violated(entry) -> bool:
    return entry.finding.verdict is Verdict.VIOLATED


LAWFUL = [
    TINY, MANY, "memtrace.broken.tiny_eviction:TinyEviction", "memtrace.broken.tiny_checkpoints:TinyCheckpoints",
    "memtrace.broken.tiny_recall:TinyRecall", "memtrace.broken.users_lawful:RefusesOddIds",
    "memtrace.broken.turns_lawful:KeepsLeftStreams", "memtrace.broken.turns_lawful:OneAtATime",
    "memtrace.broken.authors:LearnsLater",
]  # fmt: skip


@pytest.mark.parametrize("memory", LAWFUL)
def test_a_lawful_memory_is_not_accused(exploring, memory: str) -> None:
    explorer = exploring(memory)
    assert [complaint for one in explorer.explore(8, seed=0) for complaint in one.complaints()] == []


TRAPS = {
    "a window that was lawfully dropped is no loss to someone with a similar id": RandomScript(
        (Turn(0), Look(0, "messages"), Turn(1), Look(0, "messages")), kin="look", options=(("max_users", 1),)
    ),
    "nor to one who happens not to be the one who was erased": RandomScript(
        (Turn(0), Look(0, "messages"), Turn(1), Erase(1), Turn(2), Look(0, "messages")),
        callers=3, options=(("max_users", 1),),
    ),
    "a fact is learned from a question in the run that goes on with it": RandomScript((Pause(0), GoOn(0), Look(0))),
    "a fork keeps the question that the run it was forked from still asks": RandomScript(
        (Pause(1), GoOn(0, fork=True), GoOn(0, approved=False)), options=(("learn", False),)
    ),
    "a run that waits is no memory of whoever cannot be told": RandomScript((Turn(0), Pause(-1), Turn(0))),
    "two facts that redaction makes one are two": RandomScript(
        (Turn(0, "address"), Add(0, "again"), Turn(0, "asks")), options=(("redaction", True),)
    ),
    "a stream that is left is a turn like any other to the next": RandomScript((Leave(0), Leave(0, 2), Turn(0))),
}  # fmt: skip


@pytest.mark.parametrize("memory", ["reference", "reference-async", "memtrace.broken.tiny_checkpoints:TinyCheckpoints"])
@pytest.mark.parametrize("script", TRAPS.values(), ids=TRAPS)
def test_nobody_is_accused_because(exploring, script: RandomScript, memory: str) -> None:
    explorer = exploring(memory)
    assert not explorer.play(script).complaints()
