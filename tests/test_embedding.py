from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memtrace.harness.running.embedding import embed
from memtrace.harness.system import DIMENSION


def near(one: str, other: str) -> float:
    return sum(a * b for a, b in zip(*embed([one, other]), strict=True))


@given(st.lists(st.text(), max_size=4))
def test_every_text_gets_one_unit_vector(texts):
    vectors = embed(texts)
    assert len(vectors) == len(texts)
    for vector in vectors:
        assert len(vector) == DIMENSION
        assert math.isclose(math.hypot(*vector), 1.0)


@pytest.mark.parametrize("text", ["", "   ", "?!", "\N{PARTY POPPER}", "\ud800", "what is the", "_"])
def test_text_without_content_still_has_a_direction_of_its_own(text):
    assert near(text, text) == pytest.approx(1.0)
    assert near(text, "locker code") < 0.5


def test_a_text_has_the_same_vector_in_every_process():
    signs = "".join("+" if value > 0 else "-" for value in embed(["locker"])[0])
    assert signs == "-++++++----+++--+++-+-++------+-+++-----++-+++---++-+++-+-----++"


def test_question_is_nearest_to_the_statement_that_answers_it():
    question = "What is my locker code?"
    others = [
        "The weather in Paris is sunny.",
        "My dog is called Rex.",
        "I am allergic to peanuts.",
        "What is it that you do?",
        "Noted.",
    ]
    assert near(question, "My locker code is zqabcdxefghijk.") > 0.7
    assert max(near(question, other) for other in others) < 0.5


def test_more_shared_words_are_nearer():
    fact = "Alice keeps seven green lizards"
    queries = ["Bob sells old cars", "Bob sells green cars", "Bob keeps green lizards", "Alice keeps green lizards"]
    assert sorted(queries, key=lambda query: near(fact, query)) == queries


def test_case_order_and_punctuation_do_not_matter():
    assert near("Locker CODE, please!", "my code: locker") == pytest.approx(1.0)


def test_words_that_carry_no_meaning_do_not_matter():
    assert near("What is the locker code?", "locker code") == pytest.approx(1.0)


def test_text_of_such_words_alone_is_compared_by_them():
    assert near("What is the?", "is the what") == pytest.approx(1.0)
    assert near("What is the?", "who were you") < 0.5
