"""What leaves the process after redaction."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memtrace.model import Author, Message, ToolCall
from memtrace.reference.middleware import RedactEmails, chained, sent

outgoing = RedactEmails().outgoing


@pytest.mark.parametrize(
    ("text", "redacted"),
    [
        ("I am jane.doe+x@mail.example.com.", "I am [REDACTED]."),
        ("a@b.co,c@d.org", "[REDACTED],[REDACTED]"),
        ("<o'brien@x.example>", "<[REDACTED]>"),
        ("jürgen@bücher.example", "[REDACTED]"),
        ("a@b@c.example", "a@[REDACTED]"),
        ("x\nme@x.example\ty", "x\n[REDACTED]\ty"),
        ("3 apples @ 2 dollars, @alice, a@b", "3 apples @ 2 dollars, @alice, a@b"),
        ("", ""),
    ],
)
def test_addresses_are_redacted_and_nothing_else(text, redacted):
    assert outgoing(text) == redacted
    assert RedactEmails().reply(text) == redacted


@given(st.text(), st.emails(), st.text())
def test_no_address_gets_through(before, address, after):
    local, _, domain = address.partition("@")
    assert f"{local[-1:]}@{domain}" not in outgoing(f"{before} {address} {after}")


@pytest.mark.parametrize("text", ["a" * 1_000_000, "a." * 500_000, "a@" * 500_000, "a@b." * 250_000, "@" * 1_000_000])
def test_a_long_text_takes_no_longer_than_its_length(text):
    # Were it quadratic, this would take hours.
    outgoing(text)


def arguments(call):
    (message,) = sent([Message(Author.ASSISTANT, "", (ToolCall("1", "t", call),))], outgoing)
    return message.tool_calls[0].arguments


def test_arguments_stay_json():
    original = json.dumps({"to": ["line\nme@x.example", {"me@y.example": 1}], "n": 2.5, "none": None})
    assert json.loads(arguments(original)) == {
        "to": ["line\n[REDACTED]", {"[REDACTED]": 1}],
        "n": 2.5,
        "none": None,
    }


@pytest.mark.parametrize("text", ['{"a":   1}', "not json", "[" * 100_000, '"\\ud800"'])
def test_arguments_without_an_address_are_as_they_were(text):
    assert arguments(text) == text


def test_broken_arguments_are_redacted_as_text():
    assert arguments('{"to": "me@x.example"') == '{"to": "[REDACTED]"'


def test_steps_are_taken_in_order():
    assert chained([lambda text: text + "a", lambda text: text + "b"])("") == "ab"
