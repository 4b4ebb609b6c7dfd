"""The proofs: each claim holds on the reference, and fails where it should."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from memtrace.harness.rules import RULES
from memtrace.harness.scripted_model.openai_api import Step
from memtrace.harness.scripted_model.server import ModelServer
from memtrace.harness.session import make_suite
from memtrace.harness.system import ModelRequest
from memtrace.model import Verdict
from proofs.__main__ import PROOFS, main
from proofs.act import Act, run

TINY = "memtrace.broken.tiny:TinyMemory"
ACTS = [
    pytest.param(act, id=f"{proof.number}: {act.title}")
    for proof in PROOFS
    for act in proof.acts
    if not any(RULES[rule].timed for rule in act.rules)  # a busy machine may leave them undecided
]


@pytest.mark.parametrize("act", ACTS)
def test_every_act_holds_on_the_reference_and_fails_on_the_memory_that_breaks_it(act: Act) -> None:
    with make_suite("reference") as suite:
        result = run(act, suite)
    assert {finding.verdict for finding in result.findings} == {Verdict.HELD}
    assert result.counter is not None
    assert result.counter.verdict is Verdict.VIOLATED
    assert result.verdict is Verdict.HELD
    assert act.show(result.history)


def test_a_claim_that_cannot_fail_is_undecided() -> None:
    act = replace(PROOFS[0].acts[0], against=TINY)
    with make_suite(TINY) as suite:
        assert run(act, suite).verdict is Verdict.INCONCLUSIVE


def test_a_violation_is_shown_with_its_evidence_and_exit_1(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["3", "--memory", "memtrace.broken.authors:LearnsFromBoth"]) == 1
    printed = capsys.readouterr().out
    assert "✗ authors.reply-never-a-fact violated: what the model said was stored as a fact" in printed
    assert printed.splitlines()[-1] == "proof 3 violated"


def test_a_saved_report_is_judged_again_with_the_same_verdicts(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    report = tmp_path / "proof.json"
    assert main(["2", "--json", str(report)]) == 0
    assert report.stat().st_mode & 0o077 == 0
    first = capsys.readouterr().out.splitlines()[-1]
    assert main(["--replay", str(report)]) == 0
    assert capsys.readouterr().out.splitlines()[-1] == first


def test_a_tampered_report_is_judged_on_what_it_says_now(tmp_path: Path) -> None:
    report = tmp_path / "proof.json"
    main(["2", "--json", str(report)])
    saved = json.loads(report.read_text())
    lines = saved["proofs"][0]["acts"][0]["history"]
    events = [json.loads(line) for line in lines]
    said = next(e for e in events if e["event"] == "TurnStarted" and "Tuesday" in e["text"])
    others = {e["turn"] for e in events if e["event"] == "TurnStarted" and e["caller"] != said["caller"]}
    asked = [e for e in events if e["event"] == "ModelCalled" and e["turn"] in others and e["purpose"] == "answer"]
    asked[-1]["prompt"]["messages"][0]["text"] += said["text"]
    saved["proofs"][0]["acts"][0]["history"] = [json.dumps(event) for event in events]
    report.write_text(json.dumps(saved))
    assert main(["--replay", str(report)]) == 1


class _Parrot:
    """A model that is real as far as the proofs can tell."""

    def complete(self, request: ModelRequest, **_: object) -> Step:
        return Step(text="As you say." if request.model == "parrot" else "?")

    def embed(self, texts: Sequence[str], **_: object) -> list[list[float]]:
        raise NotImplementedError

    def callback(self, name: str, payload: object, **_: object) -> object:
        raise NotImplementedError


def test_a_real_model_may_answer(tmp_path: Path) -> None:
    report = tmp_path / "proof.json"
    with ModelServer() as server:
        url = server.register(_Parrot())
        main(["1", "--memory", TINY, "--model-url", url, "--model", "parrot", "--json", str(report)])
    history = json.loads(report.read_text())["proofs"][0]["acts"][0]["history"]
    replies = [event for line in history if (event := json.loads(line))["event"] == "ModelReplied"]
    assert any(reply["text"] == "As you say." for reply in replies)
    assert any(reply["tool_calls"] for reply in replies)


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        (["9"], "there is no proof 9; there are 1, 2, 3, 4"),
        (["--memory", "nosuch"], "memory 'nosuch' is unknown"),
        (["--replay", "/nosuch/file"], "/nosuch/file: "),
        (["--model", "gpt"], "--model-url and --model go together"),
        (["1", "--memory", TINY, "--json", "/nosuch/file"], "/nosuch/file cannot be written"),
    ],
)
def test_misuse_is_one_clear_line_and_exit_4(
    arguments: list[str], line: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(arguments) == 4
    printed = capsys.readouterr().err.splitlines()
    assert len(printed) == 1
    assert printed[0].startswith(f"memtrace: {line}")


def test_a_proof_prints_its_report_and_nothing_else() -> None:
    done = subprocess.run([sys.executable, "-m", "proofs", "6"], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.splitlines()[-1] == "proof 6 held"
