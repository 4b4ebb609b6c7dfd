"""A process that second processes are forked from, so that each need not import the harness anew.

It has imported what the harness needs, and the modules that a system's adapter says may be imported. It opens no
system, so it holds no file and no connection of one. A process forked from it is as a new interpreter would be, a third
of a second earlier.
"""

from __future__ import annotations

import gc
import os
import signal
import socket
import sys
from contextlib import suppress
from importlib import import_module

from memtrace.harness.running import child
from memtrace.harness.running.interpreters import MOST


def main() -> None:
    """Fork at each request, until there are no more.

    The arguments are the descriptor of the socket they come on, and the modules to import before the first.
    """
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # no zombies
    for module in sys.argv[2:]:
        with suppress(ImportError):  # who needs it will say so, to somebody who listens
            import_module(module)
    gc.freeze()  # what is never collected is not copied into each process either
    with socket.socket(fileno=int(sys.argv[1])) as requests:
        while True:
            data, descriptors, *_ = socket.recv_fds(requests, MOST, 2)
            if not data:
                return
            pid = os.fork()
            os.setpgid(pid, pid)  # on both sides, so that it has a group of its own whoever comes first
            if not pid:
                break
            for descriptor in descriptors:
                os.close(descriptor)
            requests.send(str(pid).encode())
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    child.serve(*descriptors)


if __name__ == "__main__":
    main()
