"""Embeddings: https://platform.openai.com/docs/api-reference/embeddings."""

from __future__ import annotations

import base64
import struct
from collections.abc import Mapping, Sequence
from typing import Any

from memtrace.errors import UsageError
from memtrace.harness.scripted_model.openai_api.read import required
from memtrace.harness.system import DIMENSION


def parse_embeddings(body: Any) -> list[str]:
    """The texts that an embeddings body asks for.

    Raises:
        UsageError: the body is malformed, or asks for what cannot be had; one line says where.
    """
    request = required(body, dict, "the body")
    required(request.get("model"), str, "model")
    dimensions = request.get("dimensions")
    if dimensions not in (None, DIMENSION):
        raise UsageError(f"dimensions must be {DIMENSION} or left out, not {dimensions!r}")
    if request.get("encoding_format") not in (None, "float", "base64"):
        raise UsageError(f"encoding_format must be float or base64, not {request['encoding_format']!r}")
    return _texts(request.get("input"))


def embeddings_response(
    body: Mapping[str, Any], texts: Sequence[str], vectors: Sequence[Sequence[float]]
) -> dict[str, Any]:
    """The answer's body, the vectors in the encoding that was asked for."""
    encode = _base64 if body.get("encoding_format") == "base64" else list
    words = sum(len(text.split()) for text in texts)
    return {
        "object": "list",
        "model": body["model"],
        "data": [
            {"object": "embedding", "index": index, "embedding": encode(vector)} for index, vector in enumerate(vectors)
        ],
        "usage": {"prompt_tokens": words, "total_tokens": words},
    }


def _texts(given: Any) -> list[str]:
    texts = [given] if isinstance(given, str) else required(given, list, "input")
    if not texts:
        raise UsageError("input must not be empty")
    if any(isinstance(text, int | list) for text in texts):
        # LangChain's OpenAIEmbeddings sends numbers unless check_embedding_ctx_length=False.
        raise UsageError("input is token numbers, which cannot be read here: have the client send text")
    return [required(text, str, f"input[{place}]") for place, text in enumerate(texts)]


def _base64(vector: Sequence[float]) -> str:
    """32-bit floats, little-endian."""
    return base64.b64encode(struct.pack(f"<{len(vector)}f", *vector)).decode()
