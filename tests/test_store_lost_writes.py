"""A write whose answer is lost: the store says that it may be done, and it can be made again."""

from __future__ import annotations

from contextlib import closing

import pytest
from storing import ALICE, PATIENCE, until

from memtrace.errors import StoreError
from memtrace.harness.faults.proxy import FaultProxy
from memtrace.model import Record
from memtrace.stores import open_store

MAYBE = "; a write that was under way may be done or not, and adding the same fact again is safe"
KINDS = ["postgres", "redis"]


@pytest.fixture
def url(request):
    return request.getfixturevalue(f"{request.param}_url")


@pytest.fixture
def proxy(url):
    with FaultProxy(url) as proxy:
        yield proxy


@pytest.fixture
def store(url, proxy):
    with closing(open_store(proxy.url(url), timeout=PATIENCE)) as store:
        yield store


@pytest.mark.parametrize("url", KINDS, indirect=True)
@pytest.mark.parametrize(
    ("fault", "says"),
    [
        (lambda proxy: proxy.reset_mid_reply(1), "cannot be reached: check the host, the port and the network"),
        (lambda proxy: proxy.cut_after(1, lambda: None), "did not answer in time: check the host and the network"),
        (lambda proxy: proxy.slow(100 * PATIENCE), "did not answer in time: check the host and the network"),
    ],
    ids=["cut off in the reply", "cut off before the reply", "slow"],
)
def test_a_write_without_an_answer_may_be_done_and_can_be_made_again(url, proxy, store, fault, says):
    with closing(open_store(url)) as near:
        near.add(Record(ALICE, "likes tea"))
        store.newest(ALICE)
        fault(proxy)
        with pytest.raises(StoreError) as refusal:
            store.add(Record(ALICE, "likes jazz"))
        assert f"{url.partition(':')[0]}://" in str(refusal.value)
        assert says in str(refusal.value)
        assert str(refusal.value).endswith(MAYBE)
        proxy.pass_through()
        again = store.add(Record(ALICE, "likes jazz"))
        assert store.add(Record(ALICE, "likes jazz")) == again
        assert [record.text for record in near.history(ALICE)] == ["likes jazz", "likes tea"]


@pytest.mark.parametrize("url", KINDS, indirect=True)
def test_a_write_that_was_done_without_an_answer_is_not_done_twice(url, proxy, store):
    with closing(open_store(url)) as near:
        for _ in range(2):  # the first of a connection takes more
            before = proxy.requests
            store.add(Record(ALICE, "likes tea"))
        proxy.cut_after(proxy.requests - before, lambda: None)
        with pytest.raises(StoreError, match=MAYBE):
            store.add(Record(ALICE, "likes jazz"))
        until(lambda: len(near.history(ALICE)) == 2)
        proxy.pass_through()
        assert store.add(Record(ALICE, "likes jazz")) == near.newest(ALICE)[0]
        assert near.history(ALICE) == store.newest(ALICE)


@pytest.mark.parametrize(
    ("url", "fault"), [("postgres", "refuse"), ("postgres", "black_hole"), ("redis", "refuse")], indirect=["url"]
)
def test_where_nothing_was_asked_nothing_is_said_of_writes(proxy, store, fault):
    store.close()
    getattr(proxy, fault)()
    with pytest.raises(StoreError, match=r"cannot be reached|did not answer in time") as refusal:
        store.add(Record(ALICE, "likes jazz"))
    assert "write" not in str(refusal.value)
