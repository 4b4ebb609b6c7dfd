"""What scripts about turns have in common: an exchange of planted words, a turn that fails, a look at what is kept."""

from __future__ import annotations

from memtrace.harness.running.holds import Point
from memtrace.harness.scripted_model.openai_api import Step
from memtrace.harness.scripted_model.scripting import fails, use_tool
from memtrace.harness.stage import Stage, TurnResult
from memtrace.harness.system import APPROVAL_TOOL
from memtrace.model import Caller, Outcome

NO_LEARNING = {"learn": False}
"""So that what is sent again comes from the conversation and not from a fact."""
ENDED = (Outcome.OK, Outcome.FAILED)
DOWN = [fails()] * 4
"""A model that is down: also for one that tries again."""


def exchange(stage: Stage, caller: Caller, *steps: Step, via: str = "run") -> tuple[str, str]:
    """One turn with a planted word in the question and one in the answer; returns both."""
    asked, answered = stage.canary(), stage.canary()
    says: list[Step | str] = [*steps, f"It lies on shelf {answered}."]
    stage.turn(caller, f"Where is parcel {asked}?", says=says, via=via)
    return asked, answered


def fail(
    stage: Stage, caller: Caller, *steps: Step, via: str = "run", point: Point | None = None,
    expect: tuple[Outcome, ...] = (Outcome.FAILED,),
) -> None:  # fmt: skip
    """A turn that fails, with a planted word in whatever is said in it."""
    says: list[Step | str] = [*steps, f"It was {stage.canary()}."]
    text, returns = f"My password is {stage.canary()}.", [f"Shelf {stage.canary()}."]
    stage.turn(caller, text, says=says, tool_returns=returns, via=via, fails=point, expect=expect)


def look_back(stage: Stage, caller: Caller) -> None:
    """Look wherever something may have been kept."""
    stage.messages(caller)
    stage.turn(caller, "What did I tell you, and what did you find?")
    if "list" in stage.claims:
        stage.facts(caller)
    if "search" in stage.claims:
        stage.search(caller, "password")


def pause(stage: Stage, caller: Caller, *, say: str = "") -> TurnResult:
    """A turn that waits for an approval, with a planted word in its question."""
    step = use_tool("the transfer", name=APPROVAL_TOOL, say=say)
    return stage.turn(caller, f"Please transfer {stage.canary()}.", says=[step], expect=Outcome.PAUSED)


def use_a_tool(stage: Stage, caller: Caller) -> None:
    """A turn with a planted word in its question, in what the tool is asked and in what it gives, and in no answer."""
    steps: list[Step | str] = [use_tool(f"shelf of {stage.canary()}"), "I found it."]
    returns = [f"It lies on shelf {stage.canary()}."]
    stage.turn(caller, f"Where does my parcel {stage.canary()} lie?", says=steps, tool_returns=returns)


def points(stage: Stage) -> list[Point]:
    """Where a turn of this system can be held."""
    needs: dict[Point, str] = {
        "model": "turns", "tool": "tools", "guard": "guardrails", "memory": "learn", "after_run": "after-run",
    }  # fmt: skip
    return [point for point, claim in needs.items() if claim in stage.claims]


def on_the_way_to(point: Point, answer: str) -> list[Step | str]:
    """What the model does so that the turn comes by a point."""
    return [use_tool("parcels"), answer] if point == "tool" else [answer]
