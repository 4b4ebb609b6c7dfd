"""The recorded prompt of a model call, whichever emitter wrote the span, and what was lost of it on the way.

Pure functions over plain data, so that they serve live spans, OTLP JSON and rows of a database alike. Reading only;
they raise on nothing that a span can hold, and a prompt of which something is known to be missing always says so.
"""

from memtrace.prompts.kinds import is_memory_operation, is_model_call, memory_operation
from memtrace.prompts.read import SOURCES, Source, read_prompt
from memtrace.prompts.reply import read_reply

__all__ = [
    "SOURCES",
    "Source",
    "is_memory_operation",
    "is_model_call",
    "memory_operation",
    "read_prompt",
    "read_reply",
]
