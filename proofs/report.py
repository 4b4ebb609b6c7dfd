"""A proof as a person reads it, and as a machine does."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import msgspec

from memtrace.errors import TraceFormatError
from memtrace.harness.record.history import History
from memtrace.model import Finding, Verdict
from proofs.act import Act, Proof, Result, missing_result, rejudged, verdict_of
from proofs.stores import on_which

_MARK = {Verdict.HELD: "✓", Verdict.VIOLATED: "✗"}


def printed(proof: Proof, results: Sequence[Result]) -> Iterator[str]:
    """Claim, method, evidence, counter-evidence, verdict."""
    yield f"Proof {proof.number} · {proof.boundary}"
    yield f"  claim    {proof.claim}"
    yield f"  method   {proof.method}"
    yield from (f"  {store:<8} not exercised: {why}" for store, why in _missing(results).items())
    for act in proof.acts:
        yield from _act(act, [one for one in results if one.act is act and not one.missing])
    yield ""
    yield f"  verdict  {_verdict(results)}"


def summed_up(proof: Proof, results: Sequence[Result]) -> str:
    """A proof and its verdict, and where it was not run."""
    missing = ", ".join(_missing(results))
    return f"proof {proof.number} {verdict_of(results).value}{f' (not exercised on {missing})' if missing else ''}"


def _missing(results: Sequence[Result]) -> dict[str, str]:
    return {result.store: result.missing for result in results if result.missing}


def _verdict(results: Sequence[Result]) -> str:
    found = [f"{verdict.value.upper()} on {stores}" for verdict, stores in on_which(results)]
    return "; ".join(found) or verdict_of(results).value.upper()


def _act(act: Act, results: Sequence[Result]) -> Iterator[str]:
    if not results:
        return
    yield ""
    yield f"  evidence: {act.title}"
    wide = max(len(one.store) for one in results)
    if wide:
        yield f"    │ {'':<{wide}}  {act.heading}"
    for one in results:
        store = f"{one.store:<{wide}}  " if wide else ""
        yield from (f"    │ {store}{line}" for part in act.show(one.history) for line in part.splitlines() or [""])
    yield from (f"    {line}" for line in _findings(results))
    for one in results:
        if one.counter is not None:
            yield f"  counter-evidence: the same script on {act.against}"
            yield from (f"    {line}" for line in _finding(one.counter))


def _findings(results: Sequence[Result]) -> Iterator[str]:
    """Each rule's findings, each once with all the stores that it is so on."""
    for same in zip(*(one.findings for one in results), strict=True):
        for finding in dict.fromkeys(same):
            on = [one.store for one, found in zip(results, same, strict=True) if found == finding]
            yield from _finding(finding, ", ".join(filter(None, on)))


def _finding(finding: Finding, stores: str = "") -> Iterator[str]:
    reason, on = f": {finding.reason}" if finding.reason else "", f" on {stores}" if stores else ""
    yield f"{_MARK.get(finding.verdict, '·')} {finding.rule} {finding.verdict.value}{on}{reason}"
    if finding.verdict in (Verdict.VIOLATED, Verdict.INCONCLUSIVE):
        for evidence in finding.evidence:
            yield f"    {evidence.title}:"
            yield from (f"      {line}" for line in evidence.text.splitlines())


def as_json(memory: str, results: Mapping[Proof, Sequence[Result]]) -> str:
    """Claims, verdicts, evidence and whole histories: enough to judge again."""
    return json.dumps({"system": memory, "proofs": [_proof(proof, acts) for proof, acts in results.items()]}, indent=1)


def _proof(proof: Proof, results: Sequence[Result]) -> dict[str, Any]:
    return {
        "proof": proof.number, "claim": proof.claim, "method": proof.method, "verdict": verdict_of(results).value,
        "acts": [
            {
                "title": act.act.title,
                "findings": msgspec.to_builtins(list(act.findings)),
                "counter": msgspec.to_builtins(act.counter),
                "against": act.act.against,
                "store": act.store,
                "unplayed": act.missing,
                "history_sha256": act.history.digest(),
                "history": act.history.dump().decode().splitlines(),
            }
            for act in results
        ],
    }  # fmt: skip


def replay(text: str, proofs: Sequence[Proof], *, name: str) -> dict[Proof, list[Result]]:
    """Judge the histories of a saved report again.

    Raises:
        TraceFormatError: it is no report of proofs; the message names the file.
    """
    by_number = {proof.number: proof for proof in proofs}
    try:
        saved = json.loads(text)["proofs"]
        return {by_number[one["proof"]]: _rejudged(by_number[one["proof"]], one["acts"], name) for one in saved}
    except (ValueError, KeyError, TypeError) as error:
        raise TraceFormatError(f"{name} is no report of proofs: {type(error).__name__}: {error}") from error


def _rejudged(proof: Proof, acts: Sequence[dict[str, Any]], name: str) -> list[Result]:
    titled = {act.title: act for act in proof.acts}
    return [_judged_again(titled[saved["title"]], saved, name) for saved in acts]


def _judged_again(act: Act, saved: dict[str, Any], name: str) -> Result:
    store, why = saved.get("store", ""), saved.get("unplayed", "")
    if why:
        return missing_result(act, store=store, why=why)
    return rejudged(act, History.load("\n".join(saved["history"]).encode(), name=name), store=store)
