"""What the tests of the turns boundary's checks share: the smallest conversation, and what a rule makes of it."""

from __future__ import annotations

import json

from histories import ALICE, A, B, C, HistoryWriter, Line

from memtrace.harness.record.history import History
from memtrace.harness.rules import RULES
from memtrace.harness.system import CAPABILITIES
from memtrace.harness.verdicts.judging import judge_rule
from memtrace.model import Finding, ToolCall, Verdict

ORDER = ["system", "agent facts", "user facts", "summary", "recall", "window", "input"]
LOOKUP = ToolCall("1", "lookup", json.dumps({"query": f"shelf {C}"}))


def writer(window: int = 20) -> HistoryWriter:
    return HistoryWriter(*CAPABILITIES, window=window, prompt_order=ORDER)


def judged(rule: str, history: History) -> Finding:
    return judge_rule(history, RULES[f"turns.{rule}"], own=(f"turns.{rule}",))


def verdict(rule: str, history: History) -> Verdict:
    return judged(rule, history).verdict


def talk(*prompt: Line, exact: bool = True, window: int = 20) -> History:
    """One turn, asked A and answered B; then one that is sent this and ``Next?``."""
    write = writer(window)
    write.turn(ALICE, f"Where is {A}?", says=f"On {B}.")
    write.turn(ALICE, "Next?", prompt=["system: Help.", *prompt, "user: Next?"], exact=exact)
    return write.history()


ASKED, ANSWERED = f"user: Where is {A}?", f"assistant: On {B}."
