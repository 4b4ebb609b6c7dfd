"""The checks of what leaves, on the smallest histories that break them; and the sweep they look with."""

from __future__ import annotations

import base64
import json
from urllib.parse import quote

import pytest
from histories import ALICE, A, B, HistoryWriter

from memtrace.harness.checks import CHECKS
from memtrace.harness.record.events import Exported, Opened, Printed
from memtrace.harness.seen.sweep import found_in
from memtrace.model import Author, Message, Prompt, Verdict

LOGS = "export.no-payload-in-logs"
PAYLOAD, ID, LOCAL = "export.no-payload-leaves", "export.no-id-in-clear", "export.local-is-complete"


def exporting(body: bytes, **attributes: object) -> HistoryWriter:
    write = HistoryWriter("turns", "ids", "conv", "own-spans")
    turn = write.begin(ALICE, f"My code is {A}.")
    write.model(turn, [f"user: My code is {A}."])
    kept = Prompt((Message(Author.USER, A),))
    write.span("chat m", turn, scope="memtrace", prompt=kept, attributes=attributes)
    write.end(turn)
    write.add(Exported, signal="traces", body=base64.b64encode(body).decode())
    return write


@pytest.mark.parametrize("rule", [PAYLOAD, ID, LOCAL])
def test_a_system_that_exports_nothing_exercises_nothing(rule: str) -> None:
    write = HistoryWriter("turns", "ids", "conv")
    write.turn(ALICE, f"My code is {A}.", prompt=[f"user: My code is {A}."])
    assert CHECKS[rule](write.history()).verdict is Verdict.NOT_EXERCISED


@pytest.mark.parametrize("rule", [PAYLOAD, ID, LOCAL])
def test_an_export_of_counts_holds(rule: str) -> None:
    assert CHECKS[rule](exporting(b"chat other").history()).verdict is Verdict.HELD


@pytest.mark.parametrize(
    ("form", "how"),
    [
        (A.encode(), "plain"),
        (A.upper().encode(), "plain"),
        (b"..." + A[7:].encode(), "cut"),
        (A[:7].encode() + b"\0" + A[7:].encode(), "cut"),
        (A.encode().hex().upper().encode(), "hex"),
        ("".join(f"\\u{ord(letter):04X}" for letter in A).encode(), "JSON-escaped"),
        ("".join(f"%{ord(letter):02X}" for letter in A).encode(), "URL-escaped"),
        *((base64.b64encode(b"x" * n + A.encode() + b"yz"), "base64") for n in range(3)),
        *((base64.b64encode(b"x" * n + A.upper().encode()), "base64") for n in range(3)),
        (A.encode("utf-16-le"), "plain"),
    ],
)
def test_words_are_found_in_any_form(form: bytes, how: str) -> None:
    found = CHECKS[PAYLOAD](exporting(b"\x0a\x04" + form + b"\x12").history())
    assert found.verdict is Verdict.VIOLATED
    assert found.reason.endswith(f": {how}")


def test_other_words_and_their_forms_are_not_taken_for_them() -> None:
    others = b" ".join([B.encode(), B.encode().hex().encode(), base64.b64encode(B.encode()), quote(B).encode()])
    assert found_in(others, "zqotherxmarlins") == ""
    assert CHECKS[PAYLOAD](exporting(json.dumps({"a": "zqte"}).encode()).history()).verdict is Verdict.HELD


def logging(text: str, **opened: object) -> HistoryWriter:
    write = HistoryWriter("turns", "ids", "conv")
    write.turn(ALICE, f"My code is {A}.")
    if opened:
        write.add(Opened, system="x", agent="agent", capabilities=("turns",), **opened)
    write.add(Printed, text="")
    write.process = "process-1"
    write.add(Printed, text=text)
    return write


@pytest.mark.parametrize(
    "form", [A, A.upper(), A.encode().hex(), f"half of it: {A[:7]}", base64.b64encode(A.encode()).decode()]
)
def test_words_in_a_log_are_found_in_any_form_and_the_process_is_named(form: str) -> None:
    found = CHECKS[LOGS](logging(f"INFO app: {form}\n").history())
    assert found.verdict is Verdict.VIOLATED
    assert "in process-1" in found.reason


def test_a_log_of_counts_holds() -> None:
    assert CHECKS[LOGS](logging("INFO app: 3 facts\n").history()).verdict is Verdict.HELD


def test_a_history_that_nobody_listened_to_exercises_nothing() -> None:
    assert CHECKS[LOGS](exporting(b"-").history()).verdict is Verdict.NOT_EXERCISED


def test_a_log_of_a_script_in_which_nothing_was_said_decides_nothing() -> None:
    write = HistoryWriter("turns")
    write.add(Printed, text="INFO app: started")
    assert CHECKS[LOGS](write.history()).verdict is Verdict.INCONCLUSIVE


def test_what_was_let_out_on_purpose_is_no_violation() -> None:
    assert CHECKS[LOGS](logging(A, payloads=True).history()).verdict is Verdict.NOT_EXERCISED
    write = exporting(A.encode())
    write.add(Opened, system="x", agent="agent", capabilities=("turns",), payloads=True)
    assert CHECKS[PAYLOAD](write.history()).verdict is Verdict.NOT_EXERCISED


@pytest.mark.parametrize("secret", [ALICE.user, ALICE.session, ALICE.user.encode().hex()])
def test_an_id_is_found_too(secret: str) -> None:
    assert CHECKS[ID](exporting(f"user {secret}".encode()).history()).verdict is Verdict.VIOLATED


def test_ids_that_are_plain_words_or_numbers_are_in_any_bytes_by_chance() -> None:
    write = exporting(b"assistant 1234567 chat other")
    write.turn(ALICE.__class__("assistant", "1234567"), "Hello.")
    assert CHECKS[ID](write.history()).verdict is Verdict.HELD


@pytest.mark.parametrize(
    ("attributes", "lacking"),
    [
        ({"memory.rendered_count": 2}, "what a read rendered"),
        ({"memtrace.requester.digest": "00"}, "the user's id"),
    ],
)
def test_a_local_record_that_has_only_counts_and_digests_is_not_complete(attributes: dict, lacking: str) -> None:
    found = CHECKS[LOCAL](exporting(b"-", **attributes).history())
    assert found.verdict is Verdict.VIOLATED
    assert lacking in found.reason


def test_a_local_record_without_the_prompt_is_not_complete() -> None:
    write = exporting(b"-")
    turn = write.begin(ALICE, "And?")
    write.span("chat m", turn, scope="memtrace", prompt=Prompt(lost=("the span holds no prompt",)))
    write.end(turn)
    assert CHECKS[LOCAL](write.history()).verdict is Verdict.VIOLATED
