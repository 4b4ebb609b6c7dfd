"""Instrument code one does not want to edit: `traced` wraps a function, `instrument` the methods of an object.

A wrapper is of its function's kind: plain, coroutine, generator or async generator. A wrapped generator runs in a
context of its own, copied when it is first stepped (as a task's is), so that its span is current while it runs and
never for its consumer; whoever closes it, from whichever task or thread, ends the span without touching theirs.
"""

from __future__ import annotations

import inspect
from collections.abc import AsyncGenerator, Callable, Coroutine, Generator, Iterator
from contextvars import Context, copy_context
from functools import wraps
from types import AsyncGeneratorType, CoroutineType, GeneratorType, TracebackType, coroutine
from typing import Any, Final, Literal, TypedDict, TypeVar, Unpack
from weakref import finalize

from memtrace.calls import Call
from memtrace.errors import UsageError
from memtrace.operation import Operation
from memtrace.tracing import Tracing, default

Function = TypeVar("Function", bound=Callable[..., Any])
