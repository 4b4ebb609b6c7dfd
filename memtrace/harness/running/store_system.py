"""A loop around a system that is only a store, so that it too can be judged on a prompt.

The loop is memtrace's, and the report says so: it shows the model what the store returns for the caller, and after a
turn that succeeded it adds the caller's words. Whatever else the system claims it does itself.
"""

from __future__ import annotations

import inspect
from typing import Any, Final

from memtrace.harness.system import Environment
from memtrace.model import Caller, Outcome, Reply

NOTE: Final = "the turn loop is memtrace's own: the system is a store"
_SHOWN: Final = 50


class StoreSystem:
    """A store with a loop. Its methods may be plain or async; the loop waits for either."""

    def __init__(self, store: Any, env: Environment) -> None:
        self._store = store
        self._env = env
        self.capabilities = frozenset(store.capabilities) | {"turns"}

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    def __dir__(self) -> list[str]:
        return [*dir(self._store), "turn"]

    async def turn(self, caller: Caller, text: str) -> Reply:
        """Read, ask, add."""
        known = await self._known(caller, text)
        lines = "\n".join(f"- {fact!r}" for fact in known)
        messages = [{"role": "system", "content": f"What is known of the user:\n{lines}"}] if known else []
        messages.append({"role": "user", "content": text})
        answer = self._env.model({"model": self._env.answer_model, "messages": messages})
        await _value(self._store.add(caller, text))
        return Reply(Outcome.OK, str(answer["choices"][0]["message"]["content"]))

    async def _known(self, caller: Caller, text: str) -> list[str]:
        if "search" in self.capabilities:
            return list(await _value(self._store.search(caller, text)))[:_SHOWN]
        return [fact.text for fact in await _value(self._store.facts(caller, limit=_SHOWN))]


async def _value(returned: Any) -> Any:
    return await returned if inspect.isawaitable(returned) else returned


def with_loop(system: Any, env: Environment) -> Any:
    """The system as it is where it has turns of its own; in a loop where it has not."""
    return system if "turns" in system.capabilities else StoreSystem(system, env)
