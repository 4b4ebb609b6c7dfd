"""The reference memory: a real agent memory that keeps every rule, small enough to be read.

`Memory` keeps what one agent knows of its users: windows, summaries, durable facts, recall by meaning. It is opened
once for each turn; the `MemoryTurn` that this gives is read before the model is called, and written once the turn has
succeeded.
"""

from memtrace.reference.embedding import Embedder, HashEmbedder
from memtrace.reference.erasing import Erased
from memtrace.reference.memory import Memory
from memtrace.reference.memory_turn import MemoryTurn
from memtrace.reference.offline import LEAST_USERS, Mined
from memtrace.reference.recall import Hit, Namespace, ProcessRecall, RecallIndex, SqliteRecall
from memtrace.reference.turnlog import PastTurn, TurnLog
from memtrace.reference.user_memory import UserMemory

__all__ = [
    "LEAST_USERS",
    "Embedder",
    "Erased",
    "HashEmbedder",
    "Hit",
    "Memory",
    "MemoryTurn",
    "Mined",
    "Namespace",
    "PastTurn",
    "ProcessRecall",
    "RecallIndex",
    "SqliteRecall",
    "TurnLog",
    "UserMemory",
]
