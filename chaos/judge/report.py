"""What a chaos run found, in figures: printed as a table or as JSON, and kept in a file between rounds. Pure
but for that."""

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import click
import msgspec

from chaos.figures.figures import Figure, show
from chaos.figures.samples import percentile
from chaos.judge.allowed_losses import FORGOTTEN
from chaos.observations import Answered, DoneFault, Finding, Observations, WrongKind
from engine.api import EntryKind

ENGINE_LOST = "engine_lost"
FINDINGS_KEPT = 100
FINDINGS_SHOWN = 20
COUNTERS = "reconnects", "resumed", "resent", "gaps", "stale"
WHOLE = tuple(WrongKind)


class ReportTally(msgspec.Struct):
    """The sum of all rounds so far. `pauses_ms`: from a fault to the next text of each answer it hit;
    `warm_pauses_ms` those of faults that left the others room. `forgotten`: answers that Redis forgot;
    `poisoned`: those that ended because they kill workers. `kinds`: faults by kind; `takeovers`: how often
    a log says that another worker takes over; `searched`: what was looked through for secrets, by kind."""

    scenario: str
    seed: int
    arguments: dict[str, Any]
    rounds: int = 0
    strikes: int = 0
    kinds: dict[str, int] = msgspec.field(default_factory=dict[str, int])
    takeovers: int = 0
    searched: dict[str, int] = msgspec.field(default_factory=dict[str, int])
    answers: int = 0
    refused: int = 0
    tokens: int = 0
    seams: int = 0
    seconds: float = 0.0
    pauses_ms: list[float] = msgspec.field(default_factory=list[float])
    warm: int = 0
    warm_pauses_ms: list[float] = msgspec.field(default_factory=list[float])
    silence_ms: float = 0.0
    forgotten: int = 0
    poisoned: int = 0
    wrong: dict[str, int] = msgspec.field(default_factory=dict[str, int])
    findings: list[str] = msgspec.field(default_factory=list[str])
    counters: dict[str, int] = msgspec.field(default_factory=dict[str, int])
    memory_mib: float = 0.0
    first_ms: list[float] = msgspec.field(default_factory=list[float])

    def add(self, facts: Observations, findings: Sequence[Finding]) -> None:
        """One more round."""
        where = f"round {self.rounds} (seed {facts.seed})"
        self.rounds += 1
        self.strikes += len(facts.strikes)
        self.answers += sum(not answer.refused for answer in facts.answers)
        self.refused += sum(answer.refused for answer in facts.answers)
        self.tokens += sum(answer.output for answer in facts.answers)
        self.seams += sum(len(answer.seams) for answer in facts.answers)
        self.seconds += facts.seconds
        self.warm += sum(strike.warm for strike in facts.strikes)
        for pause, warm in pauses(facts.answers, facts.strikes):
            self.pauses_ms.append(round(1000 * pause, 1))
            if warm:
                self.warm_pauses_ms.append(self.pauses_ms[-1])
        self.silence_ms = max([self.silence_ms, *(1000 * answer.silence for answer in facts.answers)])
        self.forgotten += sum(answer.code in FORGOTTEN for answer in facts.answers if not answer.refused)
        self.poisoned += sum(answer.code == ENGINE_LOST for answer in facts.answers)
        self.takeovers += sum(each.k is EntryKind.MOVED for log in facts.logs.values() for each in log)
        _add(self.kinds, Counter(strike.kind for strike in facts.strikes))
        _add(self.searched, facts.searched)
        _add(self.counters, facts.counters)
        self.memory_mib = max(self.memory_mib, facts.memory_mib)
        self.first_ms += [1000 * (a.first_text_at - a.sent_at) for a in facts.answers if a.first_text_at]
        # A request counts once for each kind of wrong, however often the oracle stumbles over it.
        counted = Counter(what for what, _ in {(each.what, each.request or each.detail) for each in findings})
        _add(self.wrong, {what.value: count for what, count in counted.items()})
        for each in findings[: max(0, FINDINGS_KEPT - len(self.findings))]:
            self.findings.append(f"{where}: {each.what.value} {each.request}: {each.detail}")

    @property
    def resumes(self) -> int:
        """How often a reader went on with its resume token after its connection or gateway was gone."""
        return self.counters.get("resumed", 0)

    @property
    def clean(self) -> bool:
        """Nothing was found wrong."""
        return not any(self.wrong.values())

    def _pauses(self, p50_ms: float | None, p99_ms: float | None) -> list[Figure]:
        """The goals are for faults with warm capacity."""
        if not self.pauses_ms:
            return []
        pause, found, warm = "fault to next delivered token", self.pauses_ms, self.warm_pauses_ms
        rows = [Figure("faults with warm capacity", 100 * self.warm / max(1, self.strikes), "%")]
        if warm:
            rows += [
                Figure(f"{pause}, warm, p50", percentile(warm, 0.5), "ms", p50_ms),
                Figure(f"{pause}, warm, p99", percentile(warm, 0.99), "ms", p99_ms),
            ]
        rows += [
            Figure(f"{pause}, p50", percentile(found, 0.5), "ms"),
            Figure(f"{pause}, p99", percentile(found, 0.99), "ms"),
            Figure(f"{pause}, longest", max(found), "ms"),
        ]
        return rows

    def figures(self, pause_p50_ms: float | None, pause_p99_ms: float | None) -> list[Figure]:
        """What is printed. The two are the goals of the pause, where the scenario has them."""
        rate = self.strikes / self.seconds if self.seconds else 0.0
        rows = [
            Figure("faults", self.strikes, ""),
            Figure("faults a second", rate, "/s"),
            Figure("answers", self.answers, ""),
            Figure("tokens", self.tokens, ""),
            Figure("seams that readers saw", self.seams, ""),
            Figure("takeovers by another worker", self.takeovers, ""),
        ]
        rows[1:1] = [
            Figure(f"faults: {kind}", n, "") for kind, n in self.kinds.items() if len(self.kinds) > 1
        ]
        rows += self._pauses(pause_p50_ms, pause_p99_ms)
        counted = {
            "refused with a code": self.refused,
            "ended log_lost or not_resumable": self.forgotten,
            "ended engine_lost": self.poisoned,
        }
        rows += [Figure(name, count, "") for name, count in counted.items() if count]
        if self.memory_mib:
            rows.append(Figure("a gateway's memory, at most", self.memory_mib, "MiB"))
        rows += [
            Figure("longest silence within an answer", self.silence_ms, "ms"),
            Figure("asked to first text, p50", percentile(self.first_ms, 0.5), "ms"),
            Figure("asked to first text, p99", percentile(self.first_ms, 0.99), "ms"),
        ]
        rows += [Figure(f"clients: {name}", self.counters.get(name, 0), "") for name in COUNTERS]
        rows += [Figure(f"searched for secrets: {kind}", n, "") for kind, n in self.searched.items()]
        return rows + [Figure(what.value, self.wrong.get(what.value, 0), "", most=0) for what in WHOLE]


def _add(sums: dict[str, int], more: Mapping[str, int]) -> None:
    for name, count in more.items():
        sums[name] = sums.get(name, 0) + count


def pauses(answers: Sequence[Answered], strikes: Sequence[DoneFault]) -> list[tuple[float, bool]]:
    """Seconds from a strike to the next text that a reader got from another worker, and whether the others
    had room.

    A seam belongs to the last strike before it that hit its request."""
    found: list[tuple[float, bool]] = []
    for answer in answers:
        hits = [strike for strike in strikes if answer.id in strike.held]
        for seam in answer.seams:
            before = [strike for strike in hits if strike.at <= seam.moved_at]
            if before and seam.why == "lost" and seam.next_text_at is not None:
                found.append((seam.next_text_at - before[-1].at, before[-1].warm))
    return found


def print_report(tally: ReportTally, replay: str, figures: Sequence[Figure], as_json: bool) -> None:
    """On stdout."""
    facts = {"seed": tally.seed, "rounds": tally.rounds, "replay": replay, "findings": tally.findings}
    show(f"chaos {tally.scenario}, seed {tally.seed}", figures, as_json, facts)
    if as_json:
        return
    for line in tally.findings[:FINDINGS_SHOWN]:
        click.echo(line)
    click.echo(f"again: {replay}")
    click.echo("clean: nothing lost, doubled, unbilled or left behind" if tally.clean else "NOT CLEAN")


def load(path: Path, fresh: ReportTally) -> ReportTally:
    """The tally to go on with: the file's, if it is of the same run."""
    if not path.exists():
        return fresh
    kept = msgspec.json.decode(path.read_bytes(), type=ReportTally)
    same = (kept.scenario, kept.seed, kept.arguments) == (fresh.scenario, fresh.seed, fresh.arguments)
    if not same:
        raise click.UsageError(f"{path} is the state of another run: {describe(kept)}")
    return kept


def save(path: Path, tally: ReportTally) -> None:
    """Whole or not at all."""
    draft = path.with_suffix(path.suffix + ".draft")
    draft.write_bytes(msgspec.json.encode(tally))
    draft.replace(path)


def describe(tally: ReportTally) -> str:
    """One line about how far it is."""
    return f"{tally.scenario} seed {tally.seed} {json.dumps(tally.arguments)}, {tally.strikes} faults so far"
