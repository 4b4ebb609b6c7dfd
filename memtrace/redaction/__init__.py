"""What may leave the process: the allow-list, and the functions that apply it. Nothing else decides.

What is not allowed here by its exact key and the shape of its value does not leave. No shape lets a free string pass.
A string leaves only if it is

* in a closed vocabulary below, or a name the policy registers (`Policy.names`): agents, models, services, blocks;
* a version such as ``1.45.2``, or an address of this machine or in IPv4 digits;
* the name of an exception class or a module that this process has loaded: code, not data;
* an id's keyed digest (`memtrace.identity`), never the id.

Any other string in a place for names becomes ``other``; any other value is dropped; both are told to ``note``. The
functions have no state and do no I/O. With ``payloads`` everything leaves as it is, except ids: those never do.

To be read whole, in this order: `shapes`, what a value may look like; `allowed`, which keys may leave and the shape of
each; `vocabulary`, the words they may use; `policy`, how all that is applied.
"""

from memtrace.redaction.allowed import KEYS, known
from memtrace.redaction.policy import Policy
from memtrace.redaction.shapes import (
    IDENTIFIERS,
    OTHER,
    Note,
    Reason,
    Shape,
    count,
    digest,
    error_type,
    flag,
    host,
    identifier,
    key_id,
    many,
    name,
    number,
    status,
    version,
    words,
)
from memtrace.redaction.vocabulary import (
    CONTENT,
    EVENT_NAMES,
    METRICS,
    PLACES,
    SEVERITIES,
    SPAN_NAMES,
    SUBJECTS,
    UNITS,
)

__all__ = [
    "CONTENT",
    "EVENT_NAMES",
    "IDENTIFIERS",
    "KEYS",
    "METRICS",
    "OTHER",
    "PLACES",
    "SEVERITIES",
    "SPAN_NAMES",
    "SUBJECTS",
    "UNITS",
    "Note",
    "Policy",
    "Reason",
    "Shape",
    "count",
    "digest",
    "error_type",
    "flag",
    "host",
    "identifier",
    "key_id",
    "known",
    "many",
    "name",
    "number",
    "status",
    "version",
    "words",
]
