"""The Redis store in the protocol that a URL names; without one it is the second."""

from contextlib import closing

import pytest
from clusters import cluster_node
from storing import ALICE, opening

pytest.register_assert_rewrite("memtrace.stores.conformance")

from memtrace.errors import UsageError  # noqa: E402
from memtrace.model import Record  # noqa: E402
from memtrace.stores.conformance import FactStoreContract  # noqa: E402
from memtrace.stores.redis import RedisStore  # noqa: E402

SPOKEN = [("", 2), ("?protocol=2", 2), ("?protocol=3", 3)]


@pytest.fixture
def opened(redis_url):
    with opening(RedisStore, f"{redis_url}?protocol=3") as opened:
        yield opened


class TestRedisInItsThirdProtocol(FactStoreContract):
    @pytest.fixture
    def reopen(self, opened):
        return opened


@pytest.mark.parametrize(("options", "protocol"), SPOKEN)
def test_the_protocol_of_the_url_is_spoken(redis_url, options, protocol):
    with closing(RedisStore(redis_url + options)) as store:
        assert store._ask(spoken, "HELLO") == protocol


@pytest.mark.parametrize(("options", "protocol"), SPOKEN)
def test_it_is_spoken_in_a_cluster(redis_to_harm, options, protocol):
    with cluster_node() as node, closing(RedisStore(node + options)) as store:
        old = store.add(Record(ALICE, "is on Free", source="learned"))
        new = store.supersede(ALICE, old.id, Record(ALICE, "is on Pro"))
        assert [record.id for record in store.history(ALICE)] == [new.id, old.id]
        assert store.delete(ALICE) == 2
        [server] = [node.redis_connection for node in store._client.server.get_nodes()]
        assert spoken(server.execute_command("HELLO")) == protocol


@pytest.mark.parametrize("number", ["1", "4", "", "three"])
def test_a_protocol_that_there_is_not_is_refused(number):
    with pytest.raises(UsageError, match=r"names a protocol that there is not: give protocol=2|is no Redis URL: give"):
        RedisStore(f"redis://host/0?protocol={number}")


def spoken(answer):
    """What is a list of pairs in the second protocol is a mapping in the third."""
    return 3 if isinstance(answer, dict) else 2
