"""Ids that look alike, and the turns that overlap by choice."""

from __future__ import annotations

from itertools import chain, combinations

import pytest

from memtrace.harness.seen.lookalikes import awkward, families, is_pattern, patterns, similar

ALICE, BOB = "qwert1@example.com", "asdfg22@example.com"


def test_every_id_of_a_family_looks_like_another_of_it() -> None:
    for users in families("qwert1").values():
        assert len(set(users)) == len(users)
        for user in users:
            assert any(similar(user, other) for other in users if other != user), user


def test_ids_of_two_families_and_of_two_names_are_different() -> None:
    users = [*chain(*families("qwert1").values()), *chain(*families("asdfg22").values())]
    assert len(set(users)) == len(users)


@pytest.mark.parametrize("user", patterns(ALICE))
def test_every_pattern_is_told(user: str) -> None:
    assert is_pattern(user)


def test_ids_that_callers_usually_have_are_no_patterns_and_do_not_look_alike() -> None:
    plain = [ALICE, BOB, *awkward("zxcvb3")[:2], *chain(*families("poiuy4").values())]
    assert not any(map(is_pattern, plain))
    assert not similar(ALICE, BOB)
    assert not any(similar(user, other) for user in families("poiuy4")["spaces"] for other in (ALICE, BOB))


@pytest.mark.parametrize("one", ["anna", "a@b", ""])
def test_an_id_is_not_similar_to_itself_nor_to_none(one: str) -> None:
    assert not similar(one, one)
    assert not similar(one, "")


def test_similar_ids_are_similar_either_way_round() -> None:
    users = list(chain(*families("qwert1").values()))
    assert all(similar(a, b) == similar(b, a) for a, b in combinations(users, 2))
