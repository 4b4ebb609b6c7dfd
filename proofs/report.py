"""A proof as a person reads it, and as a machine does."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import msgspec

from memtrace.errors import TraceFormatError
from memtrace.harness.history import History
from memtrace.model import Finding, Verdict
from proofs.act import Act, Played, Proof, replayed, unplayed, verdict_of
from proofs.stores import on_which

_MARK = {Verdict.HELD: "✓", Verdict.VIOLATED: "✗"}


def printed(proof: Proof, played: Sequence[Played]) -> Iterator[str]:
    """Claim, method, evidence, counter-evidence, verdict."""
    yield f"Proof {proof.number} · {proof.boundary}"
    yield f"  claim    {proof.claim}"
    yield f"  method   {proof.method}"
    yield from (f"  {store:<8} not exercised: {why}" for store, why in _unplayed(played).items())
    for act in proof.acts:
        yield from _act(act, [one for one in played if one.act is act and not one.unplayed])
    yield ""
    yield f"  verdict  {_verdict(played)}"


def summed_up(proof: Proof, played: Sequence[Played]) -> str:
    """A proof and its verdict, and where it was not played."""
    missing = ", ".join(_unplayed(played))
    return f"proof {proof.number} {verdict_of(played).value}{f' (not exercised on {missing})' if missing else ''}"


def _unplayed(played: Sequence[Played]) -> dict[str, str]:
    return {act.store: act.unplayed for act in played if act.unplayed}


def _verdict(played: Sequence[Played]) -> str:
    found = [f"{verdict.value.upper()} on {stores}" for verdict, stores in on_which(played)]
    return "; ".join(found) or verdict_of(played).value.upper()


def _act(act: Act, played: Sequence[Played]) -> Iterator[str]:
    if not played:
        return
    yield ""
    yield f"  evidence: {act.title}"
    wide = max(len(one.store) for one in played)
    if wide:
        yield f"    │ {'':<{wide}}  {act.heading}"
    for one in played:
        store = f"{one.store:<{wide}}  " if wide else ""
        yield from (f"    │ {store}{line}" for part in act.show(one.history) for line in part.splitlines() or [""])
    yield from (f"    {line}" for line in _findings(played))
    for one in played:
        if one.counter is not None:
            yield f"  counter-evidence: the same script on {act.against}"
            yield from (f"    {line}" for line in _finding(one.counter))


def _findings(played: Sequence[Played]) -> Iterator[str]:
    """Each rule's findings, each once with all the stores that it is so on."""
    for same in zip(*(one.findings for one in played), strict=True):
        for finding in dict.fromkeys(same):
            on = [one.store for one, found in zip(played, same, strict=True) if found == finding]
            yield from _finding(finding, ", ".join(filter(None, on)))


def _finding(finding: Finding, stores: str = "") -> Iterator[str]:
    reason, on = f": {finding.reason}" if finding.reason else "", f" on {stores}" if stores else ""
    yield f"{_MARK.get(finding.verdict, '·')} {finding.rule} {finding.verdict.value}{on}{reason}"
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
                "store": act.store,
                "unplayed": act.unplayed,
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
    return [_judged_again(titled[saved["title"]], saved, name) for saved in acts]


def _judged_again(act: Act, saved: dict[str, Any], name: str) -> Played:
    store, why = saved.get("store", ""), saved.get("unplayed", "")
    if why:
        return unplayed(act, store, why)
    return replayed(act, History.load("\n".join(saved["history"]).encode(), name=name), store)
