"""The result of a restore, and its lines for people. Pure."""

from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from pathlib import Path

import msgspec

from admin.backup.manifest import NamedModel
from admin.backup.restore_loss import InNoBook
from billing.api import to_display

SHOWN_MAX = 20


class RestoreReport(msgspec.Struct, frozen=True):
    """Result of a restore. `home`, `database`: where to, the latter as a URL without password; `billed`,
    `known`: events of streams and journals that are in the books since, and that were there before;
    `strangers`: those of tenants that the backup lacks, by tenant; `redis_survived`: it had counts of before;
    `redis_shared`: other installations have counts there, so that no tenant of its own can be told;
    `differences`: comparisons that differ; `following`: those that differ for what is told as lost, which R5
    tells until `following_until_ms`; `seconds`: by step."""

    backup_sha256: str
    made_ms: int
    home: Path
    database: str
    tenants: int
    redis_survived: bool
    redis_shared: bool
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
    following: list[str]
    following_until_ms: int
    seconds: dict[str, float]

    @property
    def whole(self) -> bool:
        """True where verify and reconcile found nothing but what is told as lost."""
        return not self.faults and not self.differences


def lines_of(report: RestoreReport) -> Iterator[str]:
    """The report for people: what was found, and at its end what was done and what to do."""
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
    yield from _limited((f"  {each}" for each in report.following), "reconcile")
    yield f"verify: {'WRONG' if report.faults else 'whole'} ({report.seconds.get('verify', 0):.1f} s)"
    differs = (
        "DIFFERS" if report.differences else "equal but for what is told" if report.following else "equal"
    )
    yield f"reconcile: {differs} ({report.seconds.get('reconcile', 0):.1f} s)"
    yield from _ending(report)


def _ending(report: RestoreReport) -> Iterator[str]:
    """What was done, what is not as it was, and what to do next."""
    made = _shown(report.made_ms)
    yield ""
    yield f"RESTORED: the backup of {made}, of {_counted(report.tenants, 'tenant')}"
    yield f"  into the home {report.home}, and the database {report.database}"
    if report.following:
        yield (
            f"  R5 (`parley reconcile`, `parley usage unbilled`) misses what is told as lost above, until "
            f"{_shown(report.following_until_ms)}; reconcile ends with 1 till then. Where Redis lost counts, "
            "it shows less than was lost"
        )
    elif any(each.lost for each in report.in_no_book):
        yield "  `parley usage unbilled` does not show what is told as lost: its counts of ends were lost too"
    yield f"  Gone is all else that was done after {made}: keys, limits, prices, tenants, conversations"
    yield (
        "  WORDS THAT WERE ERASED AFTER IT ARE BACK: erase them again (`parley users erase`, "
        "`parley tenants erase`)"
    )
    if not report.whole:
        yield "  BUT THE BOOKS ARE NOT WHOLE: see above (exit code 1). To say the restore again mends nothing"
        return
    models = "add the models named above that are gone (`parley models add`), then " if report.models else ""
    roles = "" if report.database.startswith("sqlite") else "`parley db roles --apply`, then "
    yield f"  Next: {models}{roles}start (`parley up`, or each process)"


def _shown(unix_ms: int) -> str:
    return datetime.fromtimestamp(unix_ms // 1000, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")


def _counted(number: int, what: str) -> str:
    return f"{number:,} {what}{'' if number == 1 else 's'}"


def _missing(report: RestoreReport) -> Iterator[str]:
    if not report.in_no_book:
        yield "ended requests that are in no book: none that Redis or a journal knows of"
    for each in report.in_no_book[:SHOWN_MAX]:
        told = [
            f"{each.held} held (parley quarantine list)" if each.held else "",
            f"{each.running} still run by Redis" if each.running else "",
            f"{each.lost} lost, which cost {to_display(each.lost_nano)}" if each.lost else "",
        ]
        whose = f"{each.name}, a tenant that the backup does not have" if each.stranger else each.name
        yield f"in no book, of {whose}: {', '.join(word for word in told if word)}"
    if len(report.in_no_book) > SHOWN_MAX:
        yield f"  and of {len(report.in_no_book) - SHOWN_MAX} more tenants (--json has all)"
    if not report.redis_survived:
        yield "Redis had no counts of before: what it alone knew of the time after the backup is not known"
    if report.redis_shared:
        yield "Redis has other installations too: tenants made after the backup could not be told from theirs"
    for path in report.damaged_journals:
        yield f"not all of the journal {path} can be read: it stays where it is"


def _limited(lines: Iterable[str], what: str) -> Iterator[str]:
    for number, line in enumerate(lines):
        if number == SHOWN_MAX:
            yield f"  and more: `parley {'audit verify' if what == 'verify' else 'reconcile'}` shows all"
            return
        yield line
