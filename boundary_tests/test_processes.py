"""Between one process and the one that replaces it, or works beside it: what survives."""

from __future__ import annotations

from boundary_tests.looks import ENDED, NO_LEARNING, QUESTION, look
from memtrace.harness.rules import rule
from memtrace.harness.scenes.at_once import at_once, meanwhile
from memtrace.harness.stage import Actor, Stage
from memtrace.model import Caller, Outcome

NEAR_THE_END = (1, 2, 3)
"""A write ends with the steps that make it so; these many before the last one it is cut short."""


def ask(actor: Actor, stage: Stage, caller: Caller, rule_id: str, *words: str, why: str) -> None:
    """Ask what is known of a caller, and declare that each of these words is in the prompt."""
    asked = actor.turn(caller, QUESTION, expect=ENDED)
    for word in words:
        stage.expect(rule_id, asked, word, why=why)


@rule("processes.facts-survive", options={"window": 2})
def test_facts_are_in_the_first_prompt_of_a_fresh_process(stage: Stage) -> None:
    alice = stage.caller()
    words = [stage.canary()]
    stage.add(alice, f"Alice plays saxophone at {words[0]}.")
    if "agent-facts" in stage.claims:
        words.append(stage.canary())
        stage.add(alice, f"The shop closes at {words[-1]}.", "agent")
    if "learn" in stage.claims:
        words.append(stage.canary())
        stage.turn(alice, f"I am allergic to {words[-1]}.")
        stage.turn(alice, "The weather is nice.")
    ask(stage, stage, alice, "processes.facts-survive", *words, why="it was stored")
    ask(stage.restart(), stage, alice, "processes.facts-survive", *words, why="it was stored by the process before")


def crash(stage: Stage, caller: Caller, words: list[str], before_the_last: int) -> list[str]:
    """Kill a fresh process while it stores a fact; the words of those that it and the ones before it had stored."""
    doomed, more = stage.restart(), [stage.canary(), stage.canary()]
    doomed.add(caller, f"Alice has a cat called {more[0]}.")
    steps = doomed.steps_of(lambda: doomed.add(caller, f"Alice has a dog called {more[1]}."))
    ask(doomed, stage, caller, "processes.facts-survive", *words, *more, why="it was stored")
    text = f"Alice has moved from {stage.canary()} to {stage.canary()}."
    doomed.kill_during(lambda: doomed.add(caller, text), last_step=max(1, steps - before_the_last))
    return [*words, *more]


@rule("processes.facts-survive", options=NO_LEARNING)
def test_a_process_killed_while_it_stores_a_fact_leaves_whole_facts(stage: Stage) -> None:
    stage.endangers_the_store()
    alice = stage.caller()
    words = [stage.canary()]
    stage.add(alice, f"Alice plays saxophone at {words[0]}.")
    ask(stage, stage, alice, "processes.facts-survive", *words, why="it was stored")
    for before_the_last in NEAR_THE_END:
        words = crash(stage, alice, words, before_the_last)
    ask(stage, stage, alice, "processes.facts-survive", *words, why="it was stored before the process was killed")
    if "list" in stage.claims:
        stage.facts(alice)


@rule("processes.facts-survive", needs=("learn",), options={"window": 2})
def test_a_process_killed_while_it_learns_leaves_whole_facts(stage: Stage) -> None:
    stage.endangers_the_store()
    alice = stage.caller()
    word = stage.canary()
    doomed = stage.restart()
    doomed.turn(alice, f"I am allergic to {word}.")
    doomed.turn(alice, "The weather is nice.")
    ask(doomed, stage, alice, "processes.facts-survive", word, why="it was learned")
    with stage.hold("memory") as held:
        text = f"I have moved from {stage.canary()} to {stage.canary()}."
        learning = doomed.start(alice, text, expect=Outcome.KILLED)
        held.reached()
        doomed.kill()
    learning.result()
    ask(stage, stage, alice, "processes.facts-survive", word, why="it was learned before the process was killed")
    if "list" in stage.claims:
        stage.facts(alice)


# Search and recall


def about(stage: Stage, caller: Caller) -> dict[str, str]:
    """Store three facts of a caller's; a query for each, and the word that answers it."""
    topics = ("plays saxophone in a jazz quartet", "is allergic to peanuts", "works night shifts in Lisbon")
    words = {f"Who {topic}?": stage.canary() for topic in topics}
    for topic, word in zip(topics, words.values(), strict=True):
        stage.add(caller, f"This person {topic}, says {word}.")
    return words


def search(actor: Actor, stage: Stage, caller: Caller, words: dict[str, str], rule_id: str, why: str) -> None:
    """Ask each query, and declare that the fact which answers it comes first."""
    for query, word in words.items():
        actor.search(caller, query)
        stage.expect_read(rule_id, word, times="first", why=why)


@rule("processes.search-after-restart")
def test_the_first_search_of_a_fresh_process_finds_facts_by_meaning(stage: Stage) -> None:
    alice = stage.caller()
    words = about(stage, alice)
    search(stage, stage, alice, words, "processes.search-after-restart", "it is nearest to the query")
    search(stage.restart(), stage, alice, words, "processes.search-after-restart", "the process before found it")


@rule("processes.search-survives-forget", needs=("facts",))
def test_forgetting_one_user_leaves_every_others_search_right(stage: Stage) -> None:
    rule_id, nearest = "processes.search-survives-forget", "it is nearest to the query"
    known = {caller: about(stage, caller) for caller in stage.callers(3)}
    alice, bob, carol = known
    for caller, words in known.items():
        search(stage, stage, caller, words, rule_id, nearest)
    stage.forget(bob)
    stage.search(bob, "Who plays saxophone?")
    for caller in (alice, carol):
        search(stage, stage, caller, known[caller], rule_id, f"{nearest}, and another was forgotten")
    if "reopen" in stage.claims:
        stage.reopen()
        search(stage, stage, carol, known[carol], rule_id, f"{nearest}, and another was forgotten before")


@rule("processes.search-survives-forget", needs=("facts",))
def test_forgetting_one_fact_leaves_the_search_for_the_others_right(stage: Stage) -> None:
    alice = stage.caller()
    forgotten = stage.add(alice, f"This person drives a tractor, says {stage.canary()}.")
    words = about(stage, alice)
    search(stage, stage, alice, words, "processes.search-survives-forget", "it is nearest to the query")
    stage.forget(alice, forgotten)
    search(stage, stage, alice, words, "processes.search-survives-forget", "it is nearest to the query")


@rule("processes.recall-survives-own-store", options={"recall": True, "window": 2, **NO_LEARNING})
def test_recall_kept_in_a_store_of_the_users_own_survives_a_restart(stage: Stage) -> None:
    alice = stage.caller()
    word = stage.canary()
    stage.turn(alice, f"My locker at the gym has the code {word}.")
    for text in ("The weather is nice.", "Is it warm?"):
        stage.turn(alice, text)
    question = "Which code has my locker at the gym?"
    for asked in (stage.turn(alice, question), stage.restart().turn(alice, question)):
        stage.expect("processes.recall-survives-own-store", asked, word, why="it is near to what was asked")


# Windows


def tell(actor: Actor, stage: Stage, caller: Caller) -> None:
    """Two turns that are worth keeping."""
    for text in ("I live in {}.", "I am allergic to {}."):
        actor.turn(caller, text.format(stage.canary()), says=[f"I see, {stage.canary()}."])


@rule("processes.window-round-trip", needs=("reopen",), options=NO_LEARNING)
def test_a_saved_window_is_the_same_for_its_user_and_nobody_elses(stage: Stage) -> None:
    alice, bob = stage.callers(2)
    window = stage.directory / "alice.json"
    tell(stage, stage, alice)
    stage.save(alice, window)
    stage.turn(alice, QUESTION)
    stage.load(bob, window)
    stage.turn(bob, QUESTION)
    fresh = stage.restart()
    fresh.load(bob, window)
    fresh.load(alice, window)
    for caller in (bob, alice):
        fresh.turn(caller, QUESTION)


@rule("processes.window-round-trip", options=NO_LEARNING)
def test_a_file_that_was_cut_short_loses_nothing_more_and_gives_nothing_half(stage: Stage) -> None:
    alice = stage.caller()
    window, whole = stage.directory / "alice.json", stage.directory / "alice-too.json"
    tell(stage, stage, alice)
    stage.save(alice, window)
    stage.save(alice, whole)
    stage.truncate(window)
    stage.load(alice, window)
    stage.turn(alice, QUESTION)
    stage.reopen()
    stage.load(alice, window)
    stage.turn(alice, "Is anything known of me?")
    stage.load(alice, whole)
    stage.turn(alice, QUESTION)


@rule("processes.window-round-trip", needs=("reopen",), options=NO_LEARNING)
def test_a_process_killed_while_it_saves_leaves_the_old_window_or_the_new(stage: Stage) -> None:
    stage.endangers_the_store()
    alice, doomed = stage.caller(), stage.restart()
    window = stage.directory / "alice.json"
    tell(doomed, stage, alice)
    doomed.save(alice, window)
    steps = doomed.steps_of(lambda: doomed.save(alice, window))
    doomed.turn(alice, f"I work at {stage.canary()}.")
    doomed.kill_during(lambda: doomed.save(alice, window), last_step=max(1, steps // 2))
    stage.load(alice, window)
    stage.turn(alice, QUESTION)


# Two processes


@rule("processes.other-process-seen", options=NO_LEARNING)
def test_what_one_process_writes_or_forgets_the_next_turn_of_another_knows(stage: Stage) -> None:
    alice, elsewhere = stage.caller(), stage.process()
    free, pro, hobby, home = (stage.canary() for _ in range(4))
    plan = stage.add(alice, f"Alice is on the Free plan, says {free}.")
    known_there(elsewhere, stage, alice, free, times="some", why="it was added here")
    stage.add(alice, f"Alice plays saxophone at {hobby}.")
    known_there(elsewhere, stage, alice, hobby, times="some", why="it was added here since")
    if "update" in stage.claims:
        plan = stage.update(alice, plan, f"Alice is on the Pro plan, says {pro}.")
        known_there(elsewhere, stage, alice, pro, times="some", why="it was put in the place of another here")
        known_there(elsewhere, stage, alice, free, times="none", why="another was put in its place here")
    if "forget" in stage.claims:
        stage.forget(alice, plan)
        for word in (pro, free):
            known_there(elsewhere, stage, alice, word, times="none", why="it was forgotten here")
    elsewhere.add(alice, f"Alice lives in {home}.")
    known_there(stage, stage, alice, home, times="some", why="it was added there")


def known_there(actor: Actor, stage: Stage, caller: Caller, word: str, *, times: str, why: str) -> None:
    """Ask, and where there is a search search, and declare whether a word comes up."""
    asked = actor.turn(caller, QUESTION)
    stage.expect("processes.other-process-seen", asked, word, times=times, why=why)
    if "search" in stage.claims:
        actor.search(caller, "Which plan is Alice on, and where does she live and play?")
        stage.expect_read("processes.other-process-seen", word, times=times, why=why)


@rule("processes.two-writers", needs=("facts",), options=NO_LEARNING)
def test_two_processes_that_store_facts_at_once_lose_none(stage: Stage) -> None:
    alice, elsewhere = stage.caller(), stage.process()
    here, there = ([f"Alice has been to {stage.canary()}." for _ in range(12)] for _ in range(2))
    at_once(
        lambda: [stage.add(alice, text) for text in here],
        lambda: [elsewhere.add(alice, text) for text in there],
    )
    for actor in (stage, elsewhere):
        look(actor, stage, alice)


@rule("processes.two-writers", needs=("facts", "learn"))
def test_what_one_process_stores_while_another_learns_is_kept(stage: Stage) -> None:
    alice, elsewhere = stage.caller(), stage.process()
    stage.turn(alice, f"I am allergic to {stage.canary()}.")
    with stage.hold("memory") as held:
        learning = stage.start(alice, f"I live in {stage.canary()}.", expect=ENDED)
        meanwhile(held, lambda: elsewhere.add(alice, f"Alice plays saxophone at {stage.canary()}."))
    stage.finished(learning)
    for actor in (stage, elsewhere):
        look(actor, stage, alice)


@rule("processes.fork-safe", needs=("facts",), options=NO_LEARNING)
def test_a_system_opened_before_a_fork_works_in_child_and_parent(stage: Stage) -> None:
    alice, server = stage.caller(), stage.process()
    before, inside, after = (stage.canary() for _ in range(3))
    server.add(alice, f"Alice plays saxophone at {before}.")
    ask(server, stage, alice, "processes.fork-safe", before, why="it was stored before the fork")
    with server.forked():
        server.add(alice, f"Alice lives in {inside}.")
        ask(
            server, stage, alice, "processes.fork-safe", before, inside, why="the forked child stored it, or its parent"
        )
    server.add(alice, f"Alice works at {after}.")
    ask(server, stage, alice, "processes.fork-safe", before, inside, after, why="it was stored, there or in the child")
    ask(stage, stage, alice, "processes.fork-safe", before, inside, after, why="parent or child stored it")
