"""Documents whose code is run: what the marks before a fenced block ask for.

``<!-- file: NAME -->`` writes the block to a file; ``<!-- run -->`` runs it, with ``: status N`` or ``: NAME=VALUE``
after it where it should end otherwise or wants an environment; ``<!-- prints -->`` is what the block before it printed.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parent.parent
DOCUMENTS = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]

_BLOCK = re.compile(
    r"(?:^<!-- (?P<mark>[^\n]*) -->\n)?^```(?P<language>\w*)\n(?P<text>.*?)^```$", re.DOTALL | re.MULTILINE
)
_DRAWN = (
    (re.compile(r"zq[a-z]{4}x[a-z]{7}"), "<word>"),
    (re.compile(r"\b[a-z]{5}\d+(@example\.com)?\b"), "<user>"),
    (re.compile(r"\bt\d+-[a-z]{4}\b"), "<turn>"),
    (re.compile(r"\d+\.\d+s\b"), "<time>"),
)
"""What is different each time."""


@dataclass(frozen=True)
class Block:
    """A fenced block, and the mark before it."""

    mark: str
    language: str
    text: str

    @property
    def kind(self) -> str:
        return self.mark.partition(":")[0].strip()

    @property
    def argument(self) -> str:
        return self.mark.partition(":")[2].strip()


def blocks(document: Path) -> list[Block]:
    return [Block(m["mark"] or "", m["language"], m["text"]) for m in _BLOCK.finditer(document.read_text())]


def play(document: Path, directory: Path) -> None:
    """Do what the marks of a document ask for, in order, in a directory."""
    printed = ""
    for block in blocks(document):
        match block.kind:
            case "file":
                (directory / block.argument).write_text(block.text)
            case "run":
                printed = _run(block, directory)
            case "prints":
                _compare(block.text, printed)


def _run(block: Block, directory: Path) -> str:
    status, environment = 0, _environment()
    if found := re.fullmatch(r"status (\d)", block.argument):
        status = int(found[1])
    elif block.argument:
        name, _, value = block.argument.partition("=")
        environment[name] = value
    command = [sys.executable, "-c"] if block.language == "python" else ["bash", "-euc"]
    done = subprocess.run(
        [*command, block.text], cwd=directory, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == status, f"{block.text}\nended with {done.returncode}\n{done.stdout}\n{done.stderr}"
    return done.stdout


def _environment() -> dict[str, str]:
    ours = {name: value for name, value in os.environ.items() if not name.startswith(("PYTEST_", "MEMTRACE_", "OTEL_"))}
    path = os.pathsep.join([str(Path(sys.executable).parent), ours["PATH"]])
    return ours | {"PATH": path, "MEMTRACE_ID_KEY": "0123456789abcdef" * 2}


def _compare(documented: str, printed: str) -> None:
    """Each part of a block, between lines of ``…``, is in what was printed, in order."""
    rest = plain(printed)
    for wanted in filter(None, (part.strip("\n") for part in re.split(r"(?m)^…$", plain(documented)))):
        assert wanted in rest, f"this is documented:\n{wanted}\nand this was printed:\n{printed}"
        rest = rest.partition(wanted)[2]


def plain(text: str) -> str:
    """A text without what is drawn anew each time, and without spaces at the ends of its lines."""
    for pattern, name in _DRAWN:
        text = pattern.sub(name, text)
    return "\n".join(line.rstrip() for line in text.splitlines())
