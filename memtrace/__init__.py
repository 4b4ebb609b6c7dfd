"""memtrace: see what an agent's memory does, and hold it to its promises.

::

    import memtrace

    memtrace.instrument(my_memory, read="get_context", write="add_turn")
    memtrace.instrument(client.chat.completions, model_call="create")
"""

from memtrace.model import Scope
from memtrace.tracing import model_call, read, turn, write
from memtrace.wrapping import instrument, traced

__all__ = ["Scope", "instrument", "model_call", "read", "traced", "turn", "write"]
