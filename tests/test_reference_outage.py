"""What a turn does while its store fails: it goes on, with what was read before, and says so."""

from __future__ import annotations

import logging

import pytest
from remembering import Lab, MemoryModel, ask, say, systems, window

from memtrace.errors import StoreError, UsageError
from memtrace.reference import outage

FISH = "Alice likes fish."


class Clock:
    """A clock that a test moves: of the memory, and of how long calls take."""

    now = 1000.0

    def __call__(self) -> float:
        return self.now


class FailingStore:
    """A store that takes its time, and may fail; it counts what it is asked."""

    def __init__(self, store, clock):
        self._store = store
        self._clock = clock
        self.down = False
        self.takes = 0.0
        self.asked = 0

    def __getattr__(self, name):
        call = getattr(self._store, name)

        def method(*args, **kwargs):
            self.asked += 1
            self._clock.now += self.takes
            if self.down:
                raise StoreError("the store is down") from ConnectionError()
            return call(*args, **kwargs)

        return method


@pytest.fixture
def lab(tmp_path):
    lab = Lab(tmp_path)
    yield lab
    lab.store.close()


@pytest.fixture
def clock(monkeypatch):
    clock = Clock()
    monkeypatch.setattr(outage.time, "monotonic", clock)
    return clock


@pytest.fixture
def store(lab, clock):
    return FailingStore(lab.store, clock)


def memory_of(lab, store, clock, **options):
    memory = lab.memory(location=store, clock=clock, store_timeout=4.0, store_retry=30.0, **options)
    memory.persist("We close at noon.", tier="global")
    memory.persist(FISH, scope_id="alice")
    ask(memory, "alice")
    return memory


def test_while_the_store_is_down_it_is_asked_once_an_interval(lab, store, clock):
    memory = memory_of(lab, store, clock)
    store.down, store.asked = True, 0
    for _ in range(3):
        assert FISH in "".join(systems(say(memory, "alice", "hello")))
    assert store.asked == 1
    clock.now += 31
    say(memory, "alice", "hello")
    assert store.asked == 2


def test_an_outage_is_one_warning_and_its_end_one_line(lab, store, clock, caplog):
    memory = memory_of(lab, store, clock)
    for _ in range(2):
        with caplog.at_level(logging.INFO):
            caplog.clear()
            store.down = True
            for user in ("alice", "bob", "alice"):
                say(memory, user, "hello")
            store.down = False
            clock.now += 31
            say(memory, "alice", "hello")
            say(memory, "alice", "hello")
        told = [(record.levelname, record.message) for record in caplog.records]
        assert told == [
            ("WARNING", "the store fails: StoreError (ConnectionError); turns go on with what was read before"),
            ("INFO", "the store answers again"),
        ]


def test_a_new_user_gets_the_agents_facts_and_every_read_says_that_it_failed(lab, store, clock):
    memory = memory_of(lab, store, clock)
    store.down = True
    lab.clear()
    prompt = "".join(systems(memory.open("bob").read("hello")))
    assert "We close at noon." in prompt
    assert FISH not in prompt
    failed = {span.name for span in lab.spans() if not span.status.is_ok}
    assert failed == {"memory.read.persistent_facts", "memory.read.persistent_facts.user"}
    stale = [span.attributes["memtrace.freshness"] for span in lab.spans() if span.name in failed]
    assert stale == ["stale", "missing"]


def test_a_slow_store_holds_a_turn_up_for_its_timeout_and_later_turns_not_at_all(lab, store, clock):
    memory = memory_of(lab, store, clock)
    store.takes, began = 3.0, clock.now
    assert FISH in "".join(systems(say(memory, "alice", "hello")))
    assert clock.now - began <= 2 * 4.0
    began = clock.now
    assert FISH in "".join(systems(say(memory, "alice", "hello")))
    assert clock.now - began <= 3.0


def test_the_window_keeps_a_turn_whose_facts_are_lost_and_the_log_tells_of_each(lab, store, clock, caplog):
    memory = memory_of(lab, store, clock, learn=MemoryModel())
    store.down = True
    for text in ("I play chess", "I play go"):
        say(memory, "alice", text)
    assert caplog.text.count("writing facts failed") == 2
    assert window(memory.open("alice").read("hello"))[-2:] == ["I play go", "Noted."]


def test_what_is_persisted_by_hand_is_tried_and_raises(lab, store, clock):
    memory = memory_of(lab, store, clock)
    store.down = True
    ask(memory, "alice")
    with pytest.raises(StoreError, match="the store is down"):
        memory.persist("Alice likes bread.", scope_id="alice")
    store.down = False
    assert memory.persist("Alice likes bread.", scope_id="alice").id


def test_writes_that_fail_leave_reads_alone(lab, clock):
    store = outage.Outages(FailingStore(lab.store, clock), clock, 4.0)

    def locked():
        raise StoreError("locked")

    with pytest.raises(StoreError):
        store.write(locked)
    with pytest.raises(outage.StoreOutage, match="not asked again so soon"):
        store.write(lambda: 1)
    assert store.read(lambda: 1) == 1


def test_a_timeout_of_nothing_is_refused(lab):
    with pytest.raises(UsageError, match="store_timeout=0"):
        lab.memory(store_timeout=0)
