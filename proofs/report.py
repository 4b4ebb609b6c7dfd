"""A proof as a person reads it, and as a machine does."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import msgspec

from memtrace.errors import TraceFormatError
from memtrace.harness.history import History
from memtrace.model import Finding, Verdict
from proofs.act import Played, Proof, replayed, verdict_of

_MARK = {Verdict.HELD: "✓", Verdict.VIOLATED: "✗"}


def printed(proof: Proof, played: Sequence[Played]) -> Iterator[str]:
    """Claim, method, evidence, counter-evidence, verdict."""
    yield f"Proof {proof.number} · {proof.boundary}"
    yield f"  claim    {proof.claim}"
    yield f"  method   {proof.method}"
    for act in played:
        yield ""
        yield f"  evidence: {act.act.title}"
        yield from (f"    │ {line}" for part in act.act.show(act.history) for line in part.splitlines() or [""])
        yield from (f"    {line}" for finding in act.findings for line in _finding(finding))
        if act.counter is not None:
            yield f"  counter-evidence: the same script on {act.act.against}"
            yield from (f"    {line}" for line in _finding(act.counter))
    yield ""
    yield f"  verdict  {verdict_of(played).value.upper()}"


def _finding(finding: Finding) -> Iterator[str]:
    reason = f": {finding.reason}" if finding.reason else ""
    yield f"{_MARK.get(finding.verdict, '·')} {finding.rule} {finding.verdict.value}{reason}"
    if finding.verdict in (Verdict.VIOLATED, Verdict.INCONCLUSIVE):
        for evidence in finding.evidence:
            yield f"    {evidence.title}:"
            yield from (f"      {line}" for line in evidence.text.splitlines())


def as_json(memory: str, results: Mapping[Proof, Sequence[Played]]) -> str:
    """Claims, verdicts, evidence and whole histories: enough to judge again."""
    return json.dumps(
        {"system": memory, "proofs": [_proof(proof, played) for proof, played in results.items()]}, indent=1
    )


def _proof(proof: Proof, played: Sequence[Played]) -> dict[str, Any]:
    return {
        "proof": proof.number, "claim": proof.claim, "method": proof.method, "verdict": verdict_of(played).value,
        "acts": [
            {
                "title": act.act.title,
                "findings": msgspec.to_builtins(list(act.findings)),
                "counter": msgspec.to_builtins(act.counter),
                "against": act.act.against,
                "history_sha256": act.history.digest(),
                "history": act.history.dump().decode().splitlines(),
            }
            for act in played
        ],
    }  # fmt: skip


def replay(text: str, proofs: Sequence[Proof], *, name: str) -> dict[Proof, list[Played]]:
    """Judge the histories of a saved report again.

    Raises:
        TraceFormatError: it is no report of proofs; the message names the file.
    """
    by_number = {proof.number: proof for proof in proofs}
    try:
        saved = json.loads(text)["proofs"]
        return {by_number[one["proof"]]: _replayed(by_number[one["proof"]], one["acts"], name) for one in saved}
    except (ValueError, KeyError, TypeError) as error:
        raise TraceFormatError(f"{name} is no report of proofs: {type(error).__name__}: {error}") from error


def _replayed(proof: Proof, acts: Sequence[dict[str, Any]], name: str) -> list[Played]:
    titled = {act.title: act for act in proof.acts}
    return [
        replayed(titled[saved["title"]], History.load("\n".join(saved["history"]).encode(), name=name))
        for saved in acts
    ]
