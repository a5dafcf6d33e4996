// A request's life as steps on a line of time, and as a sentence. Pure.

import type { Schemas } from "../api";
import { count, decimal } from "../format";
import { endWord } from "./words";

export type StepKind = "instant" | "waited" | "prefill" | "decode" | "moved";
/** `at` and `took` are ms since it was accepted; `took` null: an instant, of which nobody measured how long it took.
 * `open`: it goes on. `part`: how a sentence calls the time it took, with others of the same name. */
export type LifeStep = { name: string; why: string; kind: StepKind; at: number; took: number | null; open?: boolean; part?: string };
export type Life = { steps: LifeStep[]; total: number };

type Booked = Schemas["BookedRequest"];
type Detail = Schemas["RequestDetail"];
type Phase = Schemas["RequestPhase"];
/** Facts of either. `total`: ms until its end, or until now; `over`: it has ended. */
type Known = { phases: Phase[]; total: number; over: boolean; admitted: string; pool: string; waits: string; claimed: string; ended: string; input: number; cached: number; output: number; recomputed: number };

/** The life of a request that ended, from the books. */
export function bookedLife(booked: Booked): Life {
  const at = (name: string) => booked.steps.find((step) => step.name === name)?.at_ms ?? 0;
  const [accepted, ended, posted] = [at("accepted"), at("ended"), at("booked")];
  const end = [booked.reason === "blocked" && booked.code ? "" : booked.reason, booked.code].filter(Boolean).join(" ");
  return life({
    phases: booked.phases.length ? booked.phases : phasesOf(accepted, at("claimed"), at("first token"), ended),
    total: Math.max(0, ended - accepted), over: true,
    admitted: booked.priority, pool: booked.pool, waits: "", claimed: claims(booked.claims),
    ended: posted ? `${end}; billed ${span(posted - ended)} later` : end,
    input: booked.input_uncached + booked.input_cached, cached: booked.input_cached,
    output: booked.output_text + booked.output_reasoning, recomputed: booked.recomputed_tokens,
  });
}

/** The life so far of a request that its pool knows. */
export function liveLife({ row, older, input_cached, recomputed_tokens, now_ms, deaths, preempts, phases }: Detail): Life {
  const over = row.status === "ended";
  const events = [deaths ? `${count(deaths)} ${deaths === 1 ? "worker" : "workers"} lost` : "", preempts ? `set aside ${times(preempts)}` : ""];
  const known = phases.length ? phases : phasesOf(row.accepted_ms, row.claimed_ms, row.first_token_ms, 0);
  const last = known.at(-1)?.at_ms ?? 0;
  return life({
    phases: known, total: Math.max(last, over ? last : now_ms - row.accepted_ms), over,
    admitted: row.priority, pool: row.pool, waits: older ? `${count(older)} of its class wait longer` : "it is the next of its class",
    claimed: [row.worker && `by ${row.worker}`, claims(row.claims), ...events].filter(Boolean).join(", "), ended: "not billed yet",
    input: row.prompt_tokens, cached: input_cached, output: row.tokens, recomputed: recomputed_tokens,
  });
}

/** What is known of a life whose phases nobody wrote; times are Unix ms, 0 where never reached. */
function phasesOf(accepted: number, claimed: number, first: number, ended: number): Phase[] {
  const known: [string, number][] = [["queued", accepted], ["claimed", claimed], ["decode", first], ["ended", ended]];
  return known.filter(([, at]) => at).map(([kind, at]) => ({ kind, at_ms: Math.max(0, at - accepted) }));
}

const SOON_MS = 100; // a worker that has no room asks as soon

/** Without waits whose reason was known soon: that one is the reason of all of it. */
function merged(phases: Phase[]): Phase[] {
  const kept: Phase[] = [];
  for (const phase of phases) {
    const before = kept.at(-1);
    const soon = before?.kind === "queued" && ["cap", "room"].includes(phase.kind) && phase.at_ms - before.at_ms <= SOON_MS;
    if (soon) kept.pop();
    kept.push(soon ? { ...phase, at_ms: before.at_ms } : phase);
  }
  return kept;
}

function life(given: Known): Life {
  const known = { ...given, phases: merged(given.phases) };
  const { phases, total, over } = known;
  const begun = phases[0]?.at_ms ?? 0;
  const steps: LifeStep[] = [{ name: "Admitted", why: known.admitted, kind: "instant", at: 0, took: begun || null }];
  phases.forEach((phase, index) => {
    const [next, last] = [phases[index + 1], index === phases.length - 1];
    const at = Math.min(phase.at_ms, total);
    const took = Math.max(0, (next ? next.at_ms : total) - at);
    const open = last && !over;
    if (phase.kind === "claimed" && !phases.slice(0, index).some((each) => each.kind === "claimed"))
      steps.push({ name: "Claimed", why: known.claimed, kind: "instant", at, took: null });
    const step = stepOf(phase.kind, known, index, open);
    if (step.kind === "instant") steps.push({ ...step, at, took: null });
    else if (took > 0 || open || phase.kind === "claimed") steps.push({ ...step, at, took, ...(open ? { open } : {}) });
  });
  return { steps, total };
}

const QUEUE = "in the queue";

/** What a phase looks like: it lasts until the next one begins. */
function stepOf(kind: string, known: Known, index: number, open: boolean): Omit<LifeStep, "at" | "took"> {
  const wait = (why: string, part = QUEUE) => ({ name: open ? "Waits" : "Waited", why, kind: "waited" as const, part });
  const move = (why: string, part: string) => ({ name: open ? "Moves" : "Moved", why, kind: "moved" as const, part });
  if (kind === "queued") return wait(queuedWhy(known, index, open));
  if (kind === "cap") return wait(`its tenant ${open ? "is" : "was"} at its cap in the pool`);
  if (kind === "room") return wait("for room at a worker");
  if (kind === "grant") return wait("until more output is allowed", "until more output was allowed");
  if (kind === "parked") return { name: "Parked", why: `nobody ${open ? "reads" : "read"} it`, kind: "waited", part: "parked" };
  if (kind === "preempt") return wait("made way for interactive work", "after it made way");
  if (kind === "lost") return move("its worker was lost", "to move off a lost worker");
  if (kind === "drain") return move("its worker drains", "to move off a drained worker");
  if (kind === "moved") return move("to another pool", "to move to another pool");
  if (kind === "claimed") return prefill(known, index);
  if (kind === "decode") return { name: "Decode", why: decoded(known, index), kind: "decode", part: "to write" };
  if (kind === "blocked") return { name: "Blocked", why: known.ended, kind: "instant" };
  if (kind === "ended") return { name: "Ended", why: known.ended, kind: "instant" };
  return { name: kind, why: "", kind: "instant" };
}

function queuedWhy({ phases, pool, waits }: Known, index: number, open: boolean): string {
  const before = phases[index - 1]?.kind;
  if (open) return waits;
  if (!before) return phases.some((phase) => phase.kind === "moved") ? "in its first pool" : `in ${pool}`;
  return before === "moved" ? "in its new pool" : before === "parked" ? "read again, back in line" : "back in line";
}

function prefill({ phases, input, cached, recomputed }: Known, index: number): Omit<LifeStep, "at" | "took"> {
  const claims = phases.filter((phase) => phase.kind === "claimed").length;
  const again = phases.slice(0, index).some((phase) => phase.kind === "claimed");
  const tokens = claims === 2 && recomputed ? `${count(recomputed)} tokens again` : "again";
  if (again) return { name: "Prefill", why: `${tokens}, not billed`, kind: "prefill" };
  return { name: "Prefill", why: `${count(input)} tokens${cached ? `, ${count(cached)} from cache` : ""}`, kind: "prefill", part: "to its first token" };
}

/** What was written, told once: where it wrote last. */
function decoded({ phases, total, output, recomputed }: Known, index: number): string {
  const spans = phases.map((phase, at) => (phase.kind === "decode" ? (phases[at + 1]?.at_ms ?? total) - phase.at_ms : 0));
  if (phases.slice(index + 1).some((phase) => phase.kind === "decode")) return "";
  const ms = spans.reduce((sum, each) => sum + each, 0);
  const inAll = spans.filter((each) => each > 0).length > 1 ? " in all" : "";
  const rate = ms > 0 && output > 1 ? `, ${decimal((output * 1000) / ms, 0)} per second` : "";
  const told = phases.filter((phase) => phase.kind === "claimed").length === 2; // by the second prefill
  const again = recomputed && !told ? `; ${count(recomputed)} computed again, not billed` : "";
  return `${count(output)} ${output === 1 ? "token" : "tokens"}${inAll}${rate}${again}`;
}

const times = (number: number) => (number === 1 ? "once" : number === 2 ? "twice" : `${count(number)} times`);
const claims = (number: number) => (number > 1 ? `the first of ${count(number)} times` : "");

/** Milliseconds as a step has them: 14 ms, 0.31 s, 29.38 s, 12 min. */
export function span(ms: number): string {
  const size = Math.max(0, ms);
  if (size < 100) return `${count(Math.round(size))} ms`;
  return size < 600_000 ? `${decimal(size / 1000)} s` : `${decimal(size / 60_000, 1)} min`;
}

const TOLD_MS = 5; // shorter waits are no part of the sentence
const PARTS_MAX = 4;

/** How it ended: "Ended normally after 29.38 s: 9.12 s in the queue, 0.31 s to its first token." */
export function endedSentence(booked: Booked): string {
  const { steps, total } = bookedLife(booked);
  const parts = new Map<string, number>();
  for (const { part, took } of steps) if (part) parts.set(part, (parts.get(part) ?? 0) + (took ?? 0));
  const longest = [...parts.values()].sort((one, other) => other - one)[PARTS_MAX - 1] ?? 0;
  const told = [...parts].filter(([, ms]) => ms >= Math.max(TOLD_MS, longest)).map(([part, ms]) => `${span(ms)} ${part}`);
  const { said } = endWord(booked.reason);
  return `${said} after ${span(total)}${told.length ? `: ${told.join(", ")}` : ""}.`;
}

/** What it does now. */
export function liveSentence(detail: Detail): string {
  const { row, now_ms, older, parked_ms } = detail;
  const since = (ms: number) => span(now_ms - ms);
  const first = row.first_token_ms ? `first token after ${span(row.first_token_ms - row.accepted_ms)}` : `no token yet`;
  if (row.status === "queued") return `Waits for ${since(row.accepted_ms)}${older === null ? "" : older ? `: ${count(older)} of its class wait longer` : ": it is the next of its class"}.`;
  if (row.status === "parked") return `Parked${parked_ms ? ` for ${since(parked_ms)}` : ""}: nobody reads its ${count(row.tokens)} tokens on.`;
  if (row.status === "moving") return `Moves to another pool: ${count(row.tokens)} tokens so far.`;
  if (row.status === "running") return `${row.first_token_ms ? "Decodes" : "Is read in"} for ${since(row.claimed_ms || row.accepted_ms)}: ${count(row.tokens)} tokens, ${first}.`;
  return `${row.status === "ended" ? "Ended, not billed yet" : `Is ${row.status}`}: ${count(row.tokens)} tokens after ${since(row.accepted_ms)}.`;
}
