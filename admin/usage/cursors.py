"""Where a page of usage ends, as a text that only we can have made, for who asked and that question alone.
Pure but for chance."""

import hashlib

import msgspec

from admin.usage.query import UsageQuery, foreign_cursor
from billing.api import PagePosition, PeriodWindow, Principal, UsageQuestion
from core.signing.hidden_numbers import hide_number, reveal_number
from core.signing.sealed import SealedContent
from core.signing.signed_text import Keyring

LASTS_MS = 3_600_000
DAY_MS = 86_400_000
AS_OF = b"parley usage cursor as of v1"


class UsageCursor(msgspec.Struct, frozen=True, array_like=True):
    """`question`: the digest of who asked what; `buckets`: of where its days or months begin. `as_of`: the
    last line of the books that counts, veiled: it says how much the whole tenant does."""

    question: bytes
    buckets: bytes
    start_ms: int
    end_ms: int
    as_of: bytes
    bucket_ms: int
    group: tuple[str, ...]
    ends_ms: int

    @property
    def window(self) -> PeriodWindow:
        """The time that the first page was of."""
        return PeriodWindow(self.start_ms, self.end_ms)

    @property
    def position(self) -> PagePosition:
        """Where the page ended."""
        return PagePosition(self.bucket_ms, self.group)


_cursors = SealedContent(UsageCursor, b"parley usage cursor v2", lambda cursor: cursor.ends_ms)


def digest_of(route: str, principal: Principal, project: str | None, asked: UsageQuery) -> bytes:
    """What has to be the same on each page: who asks (the chain of a key's rotations), how far they see, and
    what for."""
    return _digest((route, principal.tenant, principal.owner_key, project, asked.same))


def digest_of_buckets(question: UsageQuestion) -> bytes:
    """They move where the tenant's time zone does."""
    return _digest([*question.buckets])


def shape_of(
    route: str, principal: Principal, project: str | None, asked: UsageQuery, question: UsageQuestion
) -> bytes:
    """What is the same for questions that are told as one: times count by the day (UTC)."""
    days = [at // DAY_MS for at in question.window]
    where = sorted((facet.value, ids) for facet, ids in question.where.items())
    whose = (route, principal.tenant, principal.owner_key, project)
    return _digest((*whose, asked.by, asked.bucket, where, days, asked.as_csv))


def _digest(facts: object) -> bytes:
    return hashlib.sha256(msgspec.msgpack.encode(facts)).digest()[:16]


def pack_cursor(
    digest: bytes, question: UsageQuestion, as_of: int, end: PagePosition, keyring: Keyring, now: int
) -> str:
    """The cursor of the page after this one."""
    cursor = UsageCursor(
        question=digest,
        buckets=digest_of_buckets(question),
        start_ms=question.window.start_ms,
        end_ms=question.window.end_ms,
        as_of=hide_number(as_of, AS_OF, keyring),
        bucket_ms=end.bucket_ms,
        group=end.group,
        ends_ms=now + LASTS_MS,
    )
    return _cursors.seal(cursor, keyring)


def read_cursor(text: str, question: bytes, groups: int, keyring: Keyring, now: int) -> UsageCursor | None:
    """What `pack_cursor` packed; None for no cursor. Raises Refused (bad_request) for anything else."""
    if not text:
        return None
    found = _cursors.unseal(text, keyring, now)
    if found is None or found.question != question or len(found.group) != groups:
        raise foreign_cursor()
    return found


def as_of_line(cursor: UsageCursor, keyring: Keyring) -> int:
    """The last line of the books that counts. Raises Refused (bad_request)."""
    line = reveal_number(cursor.as_of, AS_OF, keyring)
    if line is None:
        raise foreign_cursor()
    return line
