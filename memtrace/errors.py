"""What can go wrong, as one small tree.

::

    MemtraceError
    ├── UsageError         the call or the command line is off; one line names the input and the remedy
    ├── AdapterError       an adapter's or a system's code broke the contract (the cause is chained)
    ├── StoreError         a store's driver failed (the cause is chained)
    ├── PlaneError         the plane of curated facts failed
    └── TraceFormatError   a span, a history or a saved file cannot be read

    BoundaryViolation (AssertionError)    a rule was broken; one subclass a boundary
    ├── TurnsViolation, UsersViolation, AuthorsViolation, ProcessesViolation
    └── BackendsViolation, PlaneViolation, ExportViolation, ScopesViolation
"""

from __future__ import annotations


class MemtraceError(Exception):
    """Anything that memtrace itself raises, except a broken rule."""


class UsageError(MemtraceError):
    """The caller's input is off; the message is one line that names the input and the remedy."""


class AdapterError(MemtraceError):
    """The system under test, or its adapter, broke the contract; its own exception is chained."""


class StoreError(MemtraceError):
    """A store's driver failed; the driver's exception is chained, once."""


class PlaneError(MemtraceError):
    """The plane of curated facts could not be read."""


class TraceFormatError(MemtraceError):
    """A span, a history or a saved file is not in a form that can be read."""


class BoundaryViolation(AssertionError):
    """A rule was broken.

    Attributes:
        rule: the rule's id, such as ``users.no-foreign-memory``.
        reason: one sentence: what was seen and why it cannot be allowed.
        evidence: lines of evidence, the prompt around the canary among them.
    """

    def __init__(self, message: str, *, rule: str = "", reason: str = "", evidence: tuple[str, ...] = ()) -> None:
        super().__init__(message)
        self.rule = rule
        self.reason = reason
        self.evidence = evidence


class TurnsViolation(BoundaryViolation):
    """Between one turn and the next."""


class UsersViolation(BoundaryViolation):
    """Between two users."""


class AuthorsViolation(BoundaryViolation):
    """Between what the user said and what the model said."""


class ProcessesViolation(BoundaryViolation):
    """Between one process and its successor."""


class BackendsViolation(BoundaryViolation):
    """Between a laptop and a fleet."""


class PlaneViolation(BoundaryViolation):
    """Between the agent and the plane of curated facts."""


class ExportViolation(BoundaryViolation):
    """Between the process and the collector."""


class ScopesViolation(BoundaryViolation):
    """Between tenants, workspaces, applications and runs."""
