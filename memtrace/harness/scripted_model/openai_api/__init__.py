"""The OpenAI API as the scripted model speaks it: requests to messages, a scripted step to what a client expects."""

from memtrace.harness.scripted_model.openai_api.chat import chat_response, chat_stream, parse_chat
from memtrace.harness.scripted_model.openai_api.embeddings import embeddings_response, parse_embeddings
from memtrace.harness.scripted_model.openai_api.responses import parse_responses, responses_response, responses_stream
from memtrace.harness.scripted_model.openai_api.step import Step, Stream, error_body

__all__ = [
    "Step",
    "Stream",
    "chat_response",
    "chat_stream",
    "embeddings_response",
    "error_body",
    "parse_chat",
    "parse_embeddings",
    "parse_responses",
    "responses_response",
    "responses_stream",
]
