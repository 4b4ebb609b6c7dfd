"""What the tests of interrupts share: a call that is interrupted at a line of it, at each in turn."""

import sys
from contextlib import suppress


def interrupted_at(number, call, *, within):
    """Call, and raise in the given line of all that are done in these places; whether there was such a line."""
    done = 0

    def line(frame, event, _):
        nonlocal done
        if event == "line":
            done += 1
            if done == number:
                sys.settrace(None)
                raise KeyboardInterrupt
        return line

    def function(frame, _event, _):
        known = any(place in frame.f_code.co_filename for place in within)
        return line if known and not _is_within_del(frame) else None

    before = sys.gettrace()
    sys.settrace(function)
    try:
        with suppress(KeyboardInterrupt):
            call()
    finally:
        sys.settrace(before)
    return done >= number


def _is_within_del(frame):
    """Whether what is raised here would go nowhere."""
    while frame is not None and frame.f_code.co_name != "__del__":
        frame = frame.f_back
    return frame is not None
