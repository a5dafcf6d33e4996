"""Secrets that the scripted engine says, for runs that look whether any letter of them leaves a worker. Pure.

An engine says one behind each MARK; which one follows from all that it said before.
"""

import array
import zlib
from collections.abc import Sequence

MARK = "~"
OFTEN = 24  # of so many tokens one is a mark, beside those that come by chance
SECRETS = (
    "4111 1111 1111 1111 ",
    "5555-5555-5555-4444 ",
    "378282246310005 ",
    "AKIAIOSFODNN7EXAMPLE ",
    "sk-proj-vetoedvetoedvetoed0123456789 ",
    "ghp_vetoedvetoedvetoedvetoedvetoed012345 ",
    "BE71 0961 2345 6769 ",
    "GB82WEST12345698765432 ",
    "-----BEGIN RSA PRIVATE KEY-----\nMIIEvetoed\nvetoed0123456789==\n-----END RSA PRIVATE KEY----- ",
    "-----BEGIN PRIVATE KEY-----\nMIIEvetoedvetoedvetoed ",
)
# What no part of an installation may hold. A secret that an answer's end cuts off in its middle is none; none
# ends in 0, as a request's id, which begins with one, follows the text in the database's file.
TRACES = (*(each.strip() for each in SECRETS[:8]), "MIIEvetoed")


def secret_next(context: Sequence[int], mark: int, secrets: Sequence[Sequence[int]]) -> int | None:
    """The id that goes on with a begun secret; None where none is begun."""
    longest = max(map(len, secrets))
    for back in range(1, min(len(context), longest) + 1):
        if context[-back] == mark:
            before, said = context[: len(context) - back + 1], context[len(context) - back + 1 :]
            chosen = secrets[zlib.crc32(array.array("I", before).tobytes()) % len(secrets)]
            begun = len(said) < len(chosen) and list(said) == list(chosen[: len(said)])
            return chosen[len(said)] if begun else None
    return None
