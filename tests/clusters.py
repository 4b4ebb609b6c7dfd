"""A cluster for the tests of the Redis store."""

import time
from contextlib import ExitStack, closing, contextmanager

import pytest
import redis

from memtrace.harness.services import redis as services
from memtrace.harness.services.server import NotHere


@contextmanager
def cluster_node():
    """A cluster of one node, which has all slots: its URL."""
    with pytest.MonkeyPatch.context() as patch, ExitStack() as stack:
        patch.setattr(services, "_DURABLE", ("--save", "", "--cluster-enabled", "yes"))
        try:
            server = stack.enter_context(services._from_wheel(durable=True))
        except NotHere:
            server = stack.enter_context(services._from_path(durable=True))
        with closing(redis.Redis.from_url(server.url)) as node:
            node.execute_command("CLUSTER", "ADDSLOTSRANGE", 0, 16383)
            while node.execute_command("CLUSTER INFO")["cluster_state"] != "ok":
                time.sleep(0.01)
        yield server.url
