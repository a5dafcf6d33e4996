"""The result of a restore, and its lines for people. Pure."""

from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, datetime

import msgspec

from admin.backup.manifest import NamedModel
from admin.backup.restore_mark import CountedBefore
from billing.api import to_display

SHOWN_MAX = 20


class InNoBook(msgspec.Struct, frozen=True):
    """Ended requests of a tenant that are in no book. `held`: quarantined, so people decide; `running`: their
    end is in a journal, and by Redis they still run; `lost`: Redis had counted them, and nothing else is
    known of them; `lost_nano`: what they had cost. `tenant` empty: of nobody who can be named."""

    tenant: str
    name: str
    held: int = 0
    running: int = 0
    lost: int = 0
    lost_nano: int = 0


class RestoreReport(msgspec.Struct, frozen=True):
    """Result of a restore. `billed`, `known`: events of streams and journals that are in the books
    since, and that were there before; `strangers`: those of tenants that the backup lacks, by tenant;
    `redis_survived`: it had counts of before; `differences`: comparisons that differ; `seconds`: by step."""

    backup_sha256: str
    made_ms: int
    tenants: int
    redis_survived: bool
    replayed: int
    billed: int
    known: int
    strangers: dict[str, int]
    in_no_book: list[InNoBook]
    damaged_journals: list[str]
    rolled_back: int
    models: list[NamedModel]
    faults: list[tuple[str, str]]
    differences: list[str]
    seconds: dict[str, float]

    @property
    def whole(self) -> bool:
        """True where verify and reconcile found nothing."""
        return not self.faults and not self.differences


def in_no_book(
    names: Mapping[str, str],
    held: Mapping[str, int],
    running: Mapping[str, int],
    lost: Mapping[str, CountedBefore],
) -> list[InNoBook]:
    """Ended requests that are in no book, by tenant."""
    nothing = CountedBefore(0, 0)
    return [
        InNoBook(
            tenant,
            names.get(tenant, tenant or "(unreadable)"),
            held.get(tenant, 0),
            running.get(tenant, 0),
            lost.get(tenant, nothing).requests,
            lost.get(tenant, nothing).cost_nano,
        )
        for tenant in sorted({*held, *running, *lost})
    ]


def lines_of(report: RestoreReport) -> Iterator[str]:
    """The report for people."""
    made = datetime.fromtimestamp(report.made_ms // 1000, UTC).isoformat()
    yield f"restored the backup of {made}: {report.tenants} {'tenant' if report.tenants == 1 else 'tenants'}"
    yield (f"ended requests of streams and journals: {report.billed} billed now, {report.known} already were")
    for tenant, count in sorted(report.strangers.items())[:SHOWN_MAX]:
        yield f"  {count} of them were billed to {tenant}, a tenant that the backup does not have"
    yield from _missing(report)
    if report.rolled_back:
        yield f"heads kept elsewhere: {report.rolled_back} chains were taken back; the audit log says so"
    for model in report.models:
        yield f"not in a backup: the weights of {model.name} {model.version} ({model.fingerprint})"
    yield from _limited((f"  {owner or '(platform)'}: {fault}" for owner, fault in report.faults), "verify")
    yield from _limited((f"  {each}" for each in report.differences), "reconcile")
    yield f"verify: {'WRONG' if report.faults else 'whole'} ({report.seconds.get('verify', 0):.1f} s)"
    differs = "DIFFERS" if report.differences else "equal"
    yield f"reconcile: {differs} ({report.seconds.get('reconcile', 0):.1f} s)"


def _missing(report: RestoreReport) -> Iterator[str]:
    if not report.in_no_book:
        yield "ended requests that are in no book: none that Redis or a journal knows of"
    for each in report.in_no_book[:SHOWN_MAX]:
        told = [
            f"{each.held} held (parley quarantine list)" if each.held else "",
            f"{each.running} still run by Redis" if each.running else "",
            f"{each.lost} lost, which cost {to_display(each.lost_nano)}" if each.lost else "",
        ]
        yield f"in no book, of {each.name}: {', '.join(word for word in told if word)}"
    if len(report.in_no_book) > SHOWN_MAX:
        yield f"  and of {len(report.in_no_book) - SHOWN_MAX} more tenants (--json has all)"
    if not report.redis_survived:
        yield "Redis had no counts of before: what it alone knew of the time after the backup is not known"
    for path in report.damaged_journals:
        yield f"not all of the journal {path} can be read: it stays where it is"


def _limited(lines: Iterable[str], what: str) -> Iterator[str]:
    for number, line in enumerate(lines):
        if number == SHOWN_MAX:
            yield f"  and more: `parley {'audit verify' if what == 'verify' else 'reconcile'}` shows all"
            return
        yield line
