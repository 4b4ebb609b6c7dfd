"""Records the spans that OpenTelemetry's own instrumentations make around a store, with a user's words in every call.

Run by hand, with opentelemetry-instrumentation-{psycopg,redis,httpx}, psycopg, redis and httpx installed:
``python tests/record_servers.py POSTGRES_URL REDIS_URL``. Writes `tests/recorded_servers/`.
"""

from __future__ import annotations

import json
import sys
import threading
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib.metadata import version
from pathlib import Path
from typing import Any

from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

WORD = "zqtestxmarlins"
RECORDED = Path(__file__).resolve().parent / "recorded_servers"


def psycopg(url: str, provider: TracerProvider) -> None:
    """A row that is there already: the error's detail quotes it. And a statement with the words in it."""
    import psycopg as driver
    from opentelemetry.instrumentation.psycopg import PsycopgInstrumentor

    PsycopgInstrumentor().instrument(tracer_provider=provider, enable_commenter=True)
    with driver.connect(url, autocommit=True) as connection:
        connection.execute("CREATE TEMP TABLE fact (text TEXT PRIMARY KEY)")
        for _ in range(2):
            with suppress(driver.errors.UniqueViolation):
                connection.execute("INSERT INTO fact (text) VALUES (%s)", [f"Alice likes {WORD}"])
        connection.execute(f"SELECT 1 FROM fact WHERE text = 'Alice likes {WORD}'")
        with suppress(driver.errors.UndefinedTable):
            connection.execute(f"SELECT * FROM {WORD}")


def redis(url: str, provider: TracerProvider) -> None:
    """Arguments, keys, a pipeline, and a command that fails with the words in it."""
    import redis as driver
    from opentelemetry.instrumentation.redis import RedisInstrumentor

    RedisInstrumentor().instrument(tracer_provider=provider)
    client = driver.Redis.from_url(url)
    client.set(f"user:{WORD}", WORD)
    client.hset(f"facts:{WORD}", mapping={"text": WORD})
    with client.pipeline() as pipeline:
        pipeline.get(f"user:{WORD}").lpush(WORD, WORD).execute()
    for command in (("LPUSH", f"user:{WORD}", WORD), (WORD, WORD)):
        with suppress(driver.ResponseError):
            client.execute_command(*command)


def httpx(_url: str, provider: TracerProvider) -> None:
    """The words in a path, a query, a header, and an error."""
    import httpx as driver
    from opentelemetry.instrumentation.httpx import HTTPXClientInstrumentor

    HTTPXClientInstrumentor().instrument(tracer_provider=provider)
    with ThreadingHTTPServer(("127.0.0.1", 0), _Refusing) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        url = f"http://127.0.0.1:{server.server_port}"
        driver.get(f"{url}/users/{WORD}", params={"q": WORD}, headers={"x-user": WORD})
        server.shutdown()
    with suppress(driver.ConnectError):
        driver.get(f"{url}/{WORD}")
    with suppress(driver.ConnectError):
        driver.get(f"http://{WORD}.invalid/")


class _Refusing(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self.send_error(404, WORD)

    def log_message(self, *_: object) -> None:
        pass


def as_json(span: ReadableSpan) -> dict[str, Any]:
    return {
        "name": span.name,
        "kind": span.kind.name,
        "scope": span.instrumentation_scope.name,
        "attributes": dict(span.attributes),
        "status": [span.status.status_code.name, span.status.description],
        "events": [[event.name, dict(event.attributes)] for event in span.events],
    }


def main(postgres_url: str, redis_url: str) -> None:
    RECORDED.mkdir(exist_ok=True)
    for player, url in ((psycopg, postgres_url), (redis, redis_url), (httpx, "")):
        memory, provider = InMemorySpanExporter(), TracerProvider()
        provider.add_span_processor(SimpleSpanProcessor(memory))
        player(url, provider)
        packages = {f"opentelemetry-instrumentation-{player.__name__}", player.__name__}
        document = {
            "packages": {name: version(name) for name in sorted(packages)},
            "spans": [as_json(span) for span in memory.get_finished_spans()],
        }
        text = json.dumps(document, indent=1, default=str)
        for path, name in ((sys.prefix, "VENV"), (sys.base_prefix, "PYTHON"), (str(RECORDED.parent), "tests")):
            text = text.replace(path, name)
        (RECORDED / f"{player.__name__}.json").write_text(text + "\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
