"""What instrumentations export of a user's words with content capture off, when an operation on a memory raises.

Run by hand: ``python benchmarks/others_content_off.py [NAME …]``. Each gets a virtual environment of its own in a
temporary directory, with the versions below. Every one plays the same: a memory is asked to remember what a user says,
and raises with those words in the message. What the spans hold, as a collector would get it, is searched for the words.
It takes some minutes and the network. One that cannot be installed is told as such, and the others go on.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import venv
from collections.abc import Callable
from contextlib import suppress
from importlib.metadata import version
from pathlib import Path
from typing import Any

WORDS = "swordfish marmalade"
USER = "alice@example.com"
HERE = Path(__file__).resolve()
ENVIRONMENTS = {
    "loongsuite-instrumentation-mem0": ["loongsuite-instrumentation-mem0==0.9.0", "mem0ai<2"],
    "openinference-instrumentation": ["openinference-instrumentation==0.1.72"],
    "traceloop-sdk": [
        *("aiohttp", "colorama", "cuid<0.5", "deprecated", "httpx", "jinja2", "pydantic", "tenacity<10"),
        *("opentelemetry-exporter-otlp", "opentelemetry-semantic-conventions-ai<0.6"),
        *("opentelemetry-instrumentation-logging", "opentelemetry-instrumentation-threading"),
    ],
    "openlit": ["openlit==1.45.0", "mem0ai<2"],
    "memtrace-otel": [f"{HERE.parent.parent}[export]"],
}
ALONE = {"traceloop-sdk": "traceloop-sdk==0.62.4"}
"""Installed without what they depend on: that is 40 instrumentations of other libraries, which do not resolve."""


def main(names: list[str]) -> int:
    """Try each in its own environment, one line of findings each; the number of those that could not be tried."""
    return sum(not _tried(name) for name in names or ENVIRONMENTS)


def _tried(name: str) -> bool:
    with tempfile.TemporaryDirectory() as folder:
        venv.create(Path(folder) / "env", with_pip=True)
        python = Path(folder) / "env" / "bin" / "python"
        install = [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
        commands = [[*install, "opentelemetry-sdk", *ENVIRONMENTS[name]]]
        commands += [[*install, "--no-deps", ALONE[name]]] if name in ALONE else []
        commands += [[python, HERE, "--inside", name]]
        for command in commands:
            ended = subprocess.run(command, cwd=folder, stderr=subprocess.PIPE, text=True)  # noqa: S603  the versions above
            if ended.returncode:
                print(f"{name}: could not be tried: {(ended.stderr.strip().splitlines() or ['no reason given'])[-1]}")
                return False
    return True


def inside(name: str) -> None:
    """Play one, in this interpreter, and print where the words are."""
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import SimpleSpanProcessor
    from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

    exported, provider = InMemorySpanExporter(), TracerProvider()
    if name != "memtrace-otel":
        provider.add_span_processor(SimpleSpanProcessor(exported))
    remember = PLAYERS[name](provider, exported)
    with suppress(ValueError):
        remember(f"My locker code is {WORDS}.")
    spans = exported.get_finished_spans()
    places = sorted({place for span in spans for place in _places(span, WORDS)})
    ids = sorted({place for span in spans for place in _places(span, USER)})
    print(f"{name} {version(name)}: {len(spans)} span(s); words in: {_listed(places)}; user id in: {_listed(ids)}")


def _raising(text: str) -> None:
    raise ValueError(f"cannot store {text!r}")


def _mem0(_self: Any, messages: Any, *_args: Any, **_kwargs: Any) -> None:
    _raising(str(messages))


def _loongsuite(provider: Any, _exported: Any) -> Callable[[str], Any]:
    from mem0.memory.main import Memory

    Memory.add = _mem0
    from opentelemetry.instrumentation.mem0 import Mem0Instrumentor

    Mem0Instrumentor().instrument(tracer_provider=provider)
    return lambda text: Memory.__new__(Memory).add(text, user_id=USER)


def _openinference(provider: Any, _exported: Any) -> Callable[[str], Any]:
    from openinference.instrumentation import OITracer, TraceConfig, using_user

    config = TraceConfig(hide_inputs=True, hide_outputs=True)
    remember = OITracer(provider.get_tracer("app"), config).tool(_raising)

    def play(text: str) -> None:
        with using_user(USER):
            remember(text)

    return play


def _traceloop(_provider: Any, exported: Any) -> Callable[[str], Any]:
    os.environ["TRACELOOP_TRACE_CONTENT"] = "false"
    os.environ["TRACELOOP_TELEMETRY"] = "false"
    from traceloop.sdk import Traceloop
    from traceloop.sdk.decorators import tool

    Traceloop.init(app_name="app", exporter=exported, disable_batch=True)
    Traceloop.set_association_properties({"user_id": USER})
    return tool(name="remember")(_raising)


def _openlit(provider: Any, _exported: Any) -> Callable[[str], Any]:
    from mem0.memory.main import Memory

    Memory.add = _mem0
    from openlit.instrumentation.mem0 import Mem0Instrumentor
    from opentelemetry import trace

    trace.set_tracer_provider(provider)  # it takes no other
    Mem0Instrumentor().instrument(
        capture_message_content=False, environment="test", application_name="app", pricing_info={}
    )
    return lambda text: Memory.__new__(Memory).add(text, user_id=USER, metadata={"said": text})


def _memtrace(provider: Any, exported: Any) -> Callable[[str], Any]:
    from opentelemetry.sdk.trace.export import SimpleSpanProcessor

    from memtrace.export import RedactingSpanExporter, default_policy
    from memtrace.model import Level, Scope
    from memtrace.tracing import Tracing, own

    provider.add_span_processor(SimpleSpanProcessor(RedactingSpanExporter(exported, default_policy())))
    own(provider)  # with everything on the spans, as for a local record

    def play(text: str) -> None:
        with Tracing(tracer_provider=provider).write(operation="persist", scope=Scope(Level.USER, USER)):
            _raising(text)

    return play


PLAYERS = {
    "loongsuite-instrumentation-mem0": _loongsuite,
    "openinference-instrumentation": _openinference,
    "traceloop-sdk": _traceloop,
    "openlit": _openlit,
    "memtrace-otel": _memtrace,
}


def _places(span: Any, words: str) -> list[str]:
    """Where on a span the words are."""
    texts = {"span name": span.name, "status text": span.status.description}
    texts |= {f"attribute {key}": value for key, value in (span.attributes or {}).items()}
    for event in span.events:
        texts |= {f"event {event.name}: {key}": value for key, value in (event.attributes or {}).items()}
    return [place for place, text in texts.items() if words in str(text)]


def _listed(places: list[str]) -> str:
    return ", ".join(places) or "nothing"


if __name__ == "__main__":
    if sys.argv[1:2] == ["--inside"]:
        inside(sys.argv[2])
    else:
        sys.exit(main(sys.argv[1:]))
