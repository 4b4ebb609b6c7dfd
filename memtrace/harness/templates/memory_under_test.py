"""How memtrace drives this memory.

    memtrace check memory_under_test:make
"""

from memtrace.model import Outcome, Reply


class MemoryUnderTest:
    # What the memory can do: see `memtrace adapter capabilities`. Claim only what is true.
    capabilities = {"turns", "ids", "conv"}

    def __init__(self, env):
        self.env = env
        self.conversations = {}  # put your memory here

    def turn(self, caller, text):
        history = self.conversations.setdefault(caller.user, [])
        messages = [*history, {"role": "user", "content": text}]
        # Point your own agent's OpenAI-compatible client at env.model_url instead of calling env.model.
        answer = self.env.model({"model": self.env.answer_model, "messages": messages})
        reply = answer["choices"][0]["message"]
        history += [messages[-1], {"role": "assistant", "content": reply["content"]}]
        return Reply(Outcome.OK, reply["content"])

    def close(self):
        pass


make = MemoryUnderTest
