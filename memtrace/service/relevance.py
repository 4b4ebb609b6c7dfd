"""How much a fact has to do with a question, by the words they share."""

from __future__ import annotations

import math
import re
from collections import defaultdict
from collections.abc import Sequence
from typing import Final

_WORD: Final = re.compile(r"\w+")


def words(text: str) -> frozenset[str]:
    """The words of a text, caseless; an English plural is its singular."""
    return frozenset(_singular(word) for word in _WORD.findall(text.casefold()))


def _singular(word: str) -> str:
    return word[:-1] if len(word) > 3 and word.endswith("s") and not word.endswith("ss") else word


def scores(question: str, texts: Sequence[str]) -> list[float]:
    """A score from 0 to 1 for each text: the share of the question's words that it holds, rare words weighing more.

    A word that is in n of N texts weighs log(1 + N / n); one that is in none of them says nothing and is left out.
    1 means that the text holds every word of the question that any text holds.
    """
    asked = words(question)
    holders: dict[str, list[int]] = defaultdict(list)
    for place, text in enumerate(texts):
        for word in asked & words(text):
            holders[word].append(place)
    weights = {word: math.log1p(len(texts) / len(places)) for word, places in holders.items()}
    total = sum(weights.values())
    found = [0.0] * len(texts)
    for word, places in holders.items():
        for place in places:
            found[place] += weights[word] / total
    return [round(min(score, 1.0), 4) for score in found]
