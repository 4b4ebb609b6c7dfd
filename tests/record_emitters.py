"""Records the spans of real emitters into `tests/recorded/`. Run by hand: ``python tests/record_emitters.py [NAME …]``.

Each emitter gets a virtual environment of its own in a temporary directory, with the versions below, and runs against a
scripted model on loopback. What it recorded, and what the model was sent meanwhile, becomes one JSON file.
"""

from __future__ import annotations

import importlib
import subprocess
import sys
import tempfile
import venv
from pathlib import Path

HERE = Path(__file__).resolve().parent
RECORDED = HERE / "recorded"

EMITTERS = {
    "traceloop": ("emit_traceloop", ["opentelemetry-instrumentation-openai==0.62.4", "openai==3.57.0"]),
    "traceloop-legacy": (
        "emit_traceloop",
        ["opentelemetry-instrumentation-openai==0.40.14", "openai==1.109.1", "opentelemetry-sdk==1.36.0"],
    ),
    "openinference": ("emit_openinference", ["openinference-instrumentation-openai==0.1.66", "openai==3.57.0"]),
    "openai-v2": (
        "emit_openai_v2",
        ["opentelemetry-instrumentation-openai-v2==2.1b0", "openai==1.109.1", "opentelemetry-sdk==1.36.0"],
    ),
    "util-genai": ("emit_util_genai", ["opentelemetry-util-genai[upload]==1.3b0"]),
    "pydantic-ai": ("emit_pydantic_ai", ["pydantic-ai-slim[openai]==2.68.0"]),
    "fastaiagent": ("emit_fastaiagent", ["fastaiagent==1.94.0"]),
    "agent-framework": ("emit_agent_framework", ["agent-framework-core==1.23.0", "agent-framework-openai==1.17.0"]),
    "strands": ("emit_strands", ["strands-agents[openai]==1.62.0"]),
    "openai-agents": (
        "emit_openai_agents",
        ["openai-agents==0.24.0", "openinference-instrumentation-openai-agents==2.6.0"],
    ),
    "sentry": ("emit_sentry", ["sentry-sdk==2.75.0", "openai==3.57.0"]),
}


def main(names: list[str]) -> None:
    """Records the named emitters, or all."""
    for name in names or EMITTERS:
        with tempfile.TemporaryDirectory() as folder:
            python = _environment(Path(folder), EMITTERS[name][1])
            subprocess.run([python, __file__, "--inside", name], check=True, cwd=folder)
        print(f"recorded {name}")


def inside(name: str) -> None:
    """Records one emitter, in this interpreter."""
    sys.path.insert(0, str(HERE / "emitters"))
    stage = importlib.import_module("stage").Stage()
    importlib.import_module(EMITTERS[name][0]).record(stage)
    stage.save(name, RECORDED)


def _environment(folder: Path, requirements: list[str]) -> Path:
    venv.create(folder / "env", with_pip=True)
    python = folder / "env" / "bin" / "python"
    subprocess.run([python, "-m", "pip", "install", "--quiet", "opentelemetry-sdk", *requirements], check=True)
    return python


if __name__ == "__main__":
    if sys.argv[1:2] == ["--inside"]:
        inside(sys.argv[2])
    else:
        main(sys.argv[1:])
