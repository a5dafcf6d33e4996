"""Errors of a script's call that are of Redis' own kind: who copes with a call that Redis refuses copes
with them."""

from redis.exceptions import ResponseError


class UnsendableCallError(ResponseError, ValueError):
    """A call with a number that Lua would round. The message has no content of it."""


class UnreadableReplyError(ResponseError, ValueError):
    """A reply that does not fit its struct: the script read something in Redis that is not ours. The message
    has no content of it."""
