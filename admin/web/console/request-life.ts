// A request's life as steps on a line of time, and as a sentence. Pure.

import type { Schemas } from "../shared/api";
import { count, decimal } from "../shared/format";
import { endWord } from "./request-words";

export type StepKind = "instant" | "waited" | "prefill" | "decode" | "moved";
/** `at` and `took` are ms since it was accepted; `took` null: an instant, of which nobody measured how long it took.
 * `open`: it goes on. */
export type LifeStep = { name: string; why: string; kind: StepKind; at: number; took: number | null; open?: boolean };
export type Life = { steps: LifeStep[]; total: number };

type Booked = Schemas["BookedRequest"];
type Detail = Schemas["RequestDetail"];
/** Facts of either; times are Unix ms, 0 where never reached. `end`: when it ended, or now. */
type Known = { accepted: number; claimed: number; first: number; end: number; over: boolean; admittedWhy: string; waitedWhy: string; claimedWhy: string; input: number; cached: number; output: number; recomputed: number };

/** The life of a request that ended, from the books. */
export function bookedLife(booked: Booked): Life {
  const at = (name: string) => booked.steps.find((step) => step.name === name)?.at_ms ?? 0;
  const [accepted, ended, posted] = [at("accepted"), at("ended"), at("booked")];
  const life = steps({
    accepted, claimed: at("claimed"), first: at("first token"), end: ended, over: true,
    admittedWhy: booked.priority, waitedWhy: `in ${booked.pool}`, claimedWhy: claims(booked.claims),
    input: booked.input_uncached + booked.input_cached, cached: booked.input_cached,
    output: booked.output_text + booked.output_reasoning, recomputed: booked.recomputed_tokens,
  });
  const end = [booked.reason, booked.code].filter(Boolean).join(" ");
  const why = posted ? `${end}; billed ${span(posted - ended)} later` : end;
  return { ...life, steps: [...life.steps, { name: "Ended", why, kind: "instant", at: ended - accepted, took: null }] };
}

/** The life so far of a request that its pool knows. */
export function liveLife({ row, older, input_cached, recomputed_tokens, now_ms, deaths, preempts }: Detail): Life {
  const events = [deaths ? `${count(deaths)} ${deaths === 1 ? "worker" : "workers"} lost` : "", preempts ? `set aside ${times(preempts)}` : ""];
  return steps({
    accepted: row.accepted_ms, claimed: row.claimed_ms, first: row.first_token_ms, end: now_ms, over: row.status === "ended",
    admittedWhy: row.priority, waitedWhy: older === null ? `in ${row.pool}` : `${count(older)} of its class wait longer`,
    claimedWhy: [row.worker && `by ${row.worker}`, claims(row.claims), ...events].filter(Boolean).join(", "),
    input: row.prompt_tokens, cached: input_cached, output: row.tokens, recomputed: recomputed_tokens,
  });
}

function steps(known: Known): Life {
  const { accepted, claimed, first, end, over } = known;
  const total = Math.max(0, end - accepted);
  const at = (ms: number) => Math.max(0, ms - accepted);
  const found: LifeStep[] = [{ name: "Admitted", why: known.admittedWhy, kind: "instant", at: 0, took: null }];
  const bar = (name: string, why: string, kind: StepKind, from: number, to: number) =>
    found.push({ name, why, kind, at: at(from), took: Math.max(0, (to || end) - from), ...(to || over ? {} : { open: true }) });
  bar(claimed ? "Waited" : over ? "Waited" : "Waits", known.waitedWhy, "waited", accepted, claimed);
  if (claimed) {
    found.push({ name: "Claimed", why: known.claimedWhy, kind: "instant", at: at(claimed), took: null });
    const cached = known.cached ? `, ${count(known.cached)} from cache` : "";
    bar("Prefill", `${count(known.input)} tokens${cached}`, "prefill", claimed, first);
  }
  if (first) bar("Decode", decoded(known, end - first), "decode", first, 0);
  return { steps: found, total };
}

function decoded({ output, recomputed }: Known, ms: number): string {
  const rate = ms > 0 && output > 1 ? `, ${decimal((output * 1000) / ms, 0)} per second` : "";
  const again = recomputed ? `; ${count(recomputed)} computed again, not billed` : "";
  return `${count(output)} ${output === 1 ? "token" : "tokens"}${rate}${again}`;
}

const times = (number: number) => (number === 1 ? "once" : number === 2 ? "twice" : `${count(number)} times`);
const claims = (number: number) => (number > 1 ? `claimed ${times(number)}` : "");

/** Milliseconds as a step has them: 14 ms, 0.31 s, 29.38 s, 12 min. */
export function span(ms: number): string {
  const size = Math.max(0, ms);
  if (size < 100) return `${count(Math.round(size))} ms`;
  return size < 600_000 ? `${decimal(size / 1000)} s` : `${decimal(size / 60_000, 1)} min`;
}

const TOLD_MS = 5; // shorter waits are no part of the sentence

/** How it ended: "Ended normally after 29.38 s: 9.12 s in the queue, 0.31 s to its first token." */
export function endedSentence(booked: Booked): string {
  const life = bookedLife(booked);
  const took = (kind: StepKind) => life.steps.filter((step) => step.kind === kind).reduce((sum, step) => sum + (step.took ?? 0), 0);
  const parts = [
    [took("waited"), "in the queue"], [took("moved"), "to move"], [took("prefill"), "to its first token"], [took("decode"), "to write"],
  ] as const;
  const told = parts.filter(([ms]) => ms >= TOLD_MS).map(([ms, what]) => `${span(ms)} ${what}`);
  const { said } = endWord(booked.reason);
  return `${said} after ${span(life.total)}${told.length ? `: ${told.join(", ")}` : ""}.`;
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
