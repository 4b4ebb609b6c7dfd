"""memtrace: see what an agent's memory does, and hold it to its promises.

::

    import memtrace

    memtrace.instrument(my_memory, read="get_context", write="add_turn")
    memtrace.instrument(client.chat.completions, model_call="create")
    memtrace.configure(service="pet-shop", endpoint="http://collector:4317")
"""

from functools import partial
from typing import TYPE_CHECKING, Any

from memtrace.errors import UsageError
from memtrace.model import Scope
from memtrace.redaction import Policy
from memtrace.tracing import model_call, read, turn, write
from memtrace.wrapping import instrument, traced

if TYPE_CHECKING:
    from memtrace.export import configure

__all__ = ["Policy", "Scope", "configure", "instrument", "model_call", "read", "traced", "turn", "write"]


def __getattr__(name: str) -> Any:
    """`configure` needs the SDK, which is loaded for those who use it; where there is none, calling it says so."""
    if name == "configure":
        try:
            from memtrace.export import configure
        except UsageError as missing:
            return partial(_refuse, str(missing))
        return configure
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def _refuse(why: str, **_options: Any) -> None:
    raise UsageError(why)
