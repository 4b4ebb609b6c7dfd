"""The reference memory: a real agent memory that keeps every rule, small enough to be read.

`Memory` keeps what one agent knows of its users: windows, summaries, durable facts, recall by meaning. It is opened
once for each turn; the `MemoryTurn` that this gives is read before the model is called, and written once the turn has
succeeded. An `Agent`, a `Swarm` or a `Supervisor` does that; `ChatModel` is what answers.
"""

from memtrace.errors import UsageError

try:
    import httpcore  # noqa: F401
    import httpx  # noqa: F401
    import numpy  # noqa: F401, ICN001
except ImportError as missing:
    raise UsageError(f"the reference memory needs {missing.name}: pip install 'memtrace-otel[reference]'") from missing

from memtrace.reference.agent import Agent, AsyncStreamedRun, StreamedRun
from memtrace.reference.checkpoints import Checkpoints, ResumeRefused
from memtrace.reference.drivers import Cancellation, Cancelled
from memtrace.reference.embedding import Embedder, HashEmbedder
from memtrace.reference.erasing import Erased
from memtrace.reference.guardrails import Blocked, Guardrail
from memtrace.reference.memory import Memory
from memtrace.reference.memory_turn import MemoryTurn
from memtrace.reference.middleware import Middleware, RedactEmails
from memtrace.reference.models import ChatModel, Completion, Model, ModelError, ToolSpec
from memtrace.reference.offline import LEAST_USERS, Mined
from memtrace.reference.outcomes import IterationLimit, RunResult, outcome_of
from memtrace.reference.plane_block import CuratedFactsMissing
from memtrace.reference.recall import Hit, Namespace, ProcessRecall, RecallIndex, SqliteRecall
from memtrace.reference.team import Supervisor, Swarm, Worker
from memtrace.reference.tools import MEMORY_TOOLS, Tool, text_parameter
from memtrace.reference.turnlog import PastTurn, TurnLog
from memtrace.reference.user_memory import UserMemory

__all__ = [
    "LEAST_USERS",
    "MEMORY_TOOLS",
    "Agent",
    "AsyncStreamedRun",
    "Blocked",
    "Cancellation",
    "Cancelled",
    "ChatModel",
    "Checkpoints",
    "Completion",
    "CuratedFactsMissing",
    "Embedder",
    "Erased",
    "Guardrail",
    "HashEmbedder",
    "Hit",
    "IterationLimit",
    "Memory",
    "MemoryTurn",
    "Middleware",
    "Mined",
    "Model",
    "ModelError",
    "Namespace",
    "PastTurn",
    "ProcessRecall",
    "RecallIndex",
    "RedactEmails",
    "ResumeRefused",
    "RunResult",
    "SqliteRecall",
    "StreamedRun",
    "Supervisor",
    "Swarm",
    "Tool",
    "ToolSpec",
    "TurnLog",
    "UserMemory",
    "Worker",
    "outcome_of",
    "text_parameter",
]
