from __future__ import annotations

import pytest
from recorded_spans import cases

from memtrace.prompts import is_model_call, memory_operation


class TestKinds:
    def test_a_memory_operation_is_no_model_call_whatever_it_records(self):
        """OpenLIT records what it adds to mem0 under the key of the prompt."""
        attributes = {
            "gen_ai.operation.name": "memory",
            "gen_ai.request.model": "m",
            "gen_ai.input.messages": '[{"role": "user", "parts": []}]',
        }
        assert memory_operation("memory add", attributes) == "upsert_memory"
        assert not is_model_call("memory add", attributes)

    @pytest.mark.parametrize(
        ("name", "attributes"),
        [
            ("chat gpt", {"gen_ai.operation.name": "chat"}),
            ("generate_content gemini", {"gen_ai.operation.name": "generate_content"}),
            ("text_completion m", {}),
            ("ChatCompletion", {"openinference.span.kind": "LLM"}),
            ("anything", {"langfuse.observation.type": "generation"}),
            ("anything", {"mlflow.spanType": '"LLM"'}),
            ("openai.chat", {"llm.request.type": "chat"}),
            ("ai.generateText.doGenerate", {}),
            ("ai.streamText.doStream", {}),
            ("call_llm", {"gen_ai.system": "gcp.vertex.agent"}),
            ("llm.openai.gpt", {"gen_ai.system": "openai"}),
            ("chat gpt", {"gen_ai.input.messages": "[]"}),
            ("unnamed", {"llm.input_messages.16.message.role": "user"}),
            ("unnamed", {"gen_ai.request.messages": "[]"}),
            ("chat gpt", {"gen_ai.operation.name": "chat", "memory.operation": "read"}),
        ],
    )
    def test_model_calls(self, name, attributes):
        assert is_model_call(name, attributes)

    @pytest.mark.parametrize(
        ("name", "attributes"),
        [
            ("invoke_agent keeper", {"gen_ai.operation.name": "invoke_agent", "gen_ai.input.messages": "[]"}),
            ("invoke_agent keeper", {"gen_ai.request.model": "m", "gen_ai.input.messages": "[]"}),
            ("execute_tool look", {"gen_ai.operation.name": "execute_tool", "gen_ai.input.messages": "[]"}),
            ("agent.keeper", {"agent.input": "hello"}),
            ("embeddings m", {"gen_ai.operation.name": "embeddings", "gen_ai.request.model": "m"}),
            ("keeper", {"openinference.span.kind": "AGENT", "input.value": "hello"}),
            ("openai.embeddings", {"llm.request.type": "embedding", "gen_ai.prompt.0.content": "hello"}),
            ("memory.read", {}),
            ("GET /chat", {}),
            ("ai.generateText", {"ai.prompt": "{}"}),
            ("chat", {"gen_ai.operation.name": ["chat"], "memory.operation": "read"}),
        ],
    )
    def test_no_model_calls(self, name, attributes):
        assert not is_model_call(name, attributes)

    @pytest.mark.parametrize(
        ("operation", "spans"),
        [
            (
                "upsert_memory",
                ["memory.add", "memory.extract", "memory.write", "memory.write.facts", "memory.persist", "memory add",
                 "memory_operation add", "memory_operation batch_add", "memorysync.add", "memorysync.add_turn",
                 "memorysync.bulk_add", "memorysync.append_history", "memorysync.put_state"],
            ),
            (
                "search_memory",
                ["memory.read", "memory.read.persistent_facts.user", "memory.retrieve", "memory.search",
                 "memory get_all", "memory_operation history", "memorysync.query", "memorysync.recall",
                 "memorysync.search_routed", "memorysync.get", "memorysync.list_memories"],
            ),
            ("update_memory", ["memory.update", "memory_operation update", "memory_operation batch_update"]),
            (
                "delete_memory",
                ["memory.forget", "memory delete_all", "memory_operation batch_delete", "memorysync.delete_user"],
            ),
            (
                None,
                ["memory.inject", "memory.usage", "memory", "memorysync", "chat gpt", "memories.add", "in-memory add"],
            ),
        ],
    )  # fmt: skip
    def test_every_emitters_memory_operation_has_the_standards_name(self, operation, spans):
        assert {memory_operation(name, {}) for name in spans} == {operation}
        assert {memory_operation("span", {"gen_ai.operation.name": name}) for name in spans} == {operation}

    @pytest.mark.parametrize(
        "operation",
        ["search_memory", "create_memory", "update_memory", "upsert_memory", "delete_memory", "create_memory_store",
         "delete_memory_store"],
    )  # fmt: skip
    def test_the_standards_own_names_stand(self, operation):
        assert memory_operation("memory.write", {"gen_ai.operation.name": operation}) == operation

    def test_an_operation_in_an_attribute_of_its_own(self):
        assert memory_operation("op", {"gen_ai.memory.operation": "delete_all"}) == "delete_memory"
        assert memory_operation("op", {"memory.operation": "read"}) == "search_memory"

    @pytest.mark.parametrize(
        ("name", "operation"),
        [
            ("CreateEvent", "upsert_memory"),
            ("RetrieveMemoryRecords", "search_memory"),
            ("AgentCore.DeleteEvent", "delete_memory"),
            ("CreateMemory", "create_memory_store"),
        ],
    )
    def test_agentcores_operations_count_only_for_a_memory(self, name, operation):
        assert memory_operation(name, {"memory.id": "m1"}) == operation
        assert memory_operation(name, {"calendar.id": "c1"}) is None

    def test_fastaiagents_memory_spans(self):
        spans = [span for emitter, case in cases() if emitter == "fastaiagent" for span in case["spans"]]
        memory = [span for span in spans if span["scope"] == "fastaiagent.memory"]
        told = {span["name"].split(".")[1]: memory_operation(span["name"], span["attributes"]) for span in memory}
        assert told == {"persist": "upsert_memory", "read": "search_memory", "write": "upsert_memory"}
