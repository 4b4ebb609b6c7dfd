"""Scripts that nobody wrote: drawn by Hypothesis, played on a stage of their own, judged by every invariant."""

from __future__ import annotations

from memtrace.harness.random_scripts.exploring import Explorer, Found
from memtrace.harness.random_scripts.lines import RandomScript, decode, encode

__all__ = ["Explorer", "Found", "RandomScript", "decode", "encode"]
