"""Cursors of usage pages: texts that only we can have made, each for one caller and one question. Pure but
for randomness."""

import hashlib

import msgspec

from admin.usage.query import UsageQuery, foreign_cursor
from billing.api import PagePosition, PeriodWindow, Principal, UsageQuestion
from core.signing.hidden_numbers import hide_number, reveal_number
from core.signing.sealed import SealedContent
from core.signing.signed_text import Keyring

CURSOR_LIFETIME_MS = 3_600_000
DAY_MS = 86_400_000
AS_OF = b"parley usage cursor as of v1"


class UsageCursor(msgspec.Struct, frozen=True, array_like=True):
    """`question`: digest of caller and question; `buckets`: digest of where its days or months begin.
    `as_of`: last line of the books that counts, encrypted: its number would tell how much the whole tenant
    does."""

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
        """The time window of the first page."""
        return PeriodWindow(self.start_ms, self.end_ms)

    @property
    def position(self) -> PagePosition:
        """The position at which the page ended."""
        return PagePosition(self.bucket_ms, self.group)


_cursors = SealedContent(UsageCursor, b"parley usage cursor v2", lambda cursor: cursor.ends_ms)


def digest_of(route: str, principal: Principal, project: str | None, asked: UsageQuery) -> bytes:
    """Digest of what must be equal on each page: the caller (the chain of a key's rotations), its project,
    and the question."""
    return _digest((route, principal.tenant, principal.owner_key, project, asked.same))


def digest_of_buckets(question: UsageQuestion) -> bytes:
    """Digest of bucket limits, which change with the tenant's time zone."""
    return _digest([*question.buckets])


def shape_of(
    route: str, principal: Principal, project: str | None, asked: UsageQuery, question: UsageQuestion
) -> bytes:
    """Digest that is equal for questions which the audit log counts as one: times count by the day (UTC)."""
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
        ends_ms=now + CURSOR_LIFETIME_MS,
    )
    return _cursors.seal(cursor, keyring)


def read_cursor(text: str, question: bytes, groups: int, keyring: Keyring, now: int) -> UsageCursor | None:
    """The cursor that `pack_cursor` made; None for no text. Raises Refused (bad_request) for others."""
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
