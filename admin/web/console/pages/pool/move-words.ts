// What is said of a move: what it would do, and how far it is. Pure.

import type { Schemas } from "../../../shared/api";
import type { StateName } from "../../../shared/components/state";
import { count, decimal, percent } from "../../../shared/format";

export type Preview = Schemas["MigrationPreview"];
export type Moved = Schemas["MovedTenant"];
export type Stream = Schemas["MovedStream"];
export type MoveRun = Schemas["RunSummary"] & { move: Schemas["TenantMove"] };

const SHOWN = 3;
const are = (number: number, one: string, many: string) => (number === 1 ? `1 ${one}` : `${count(number)} ${many}`);

/** How many requests go. */
export const amountOf = ({ streams, waiting }: Preview) => streams + waiting;

/** The words of the button that moves them. */
export function buttonOf(preview: Preview | null, what: string): string {
  const amount = preview ? amountOf(preview) : 0;
  return amount ? `Move ${are(amount, "request", "requests")}` : what;
}

/** An id as a row has it: its beginning and its end. */
export const shortId = (id: string) => (id.length > 14 ? `${id.slice(0, 8)}…${id.slice(-4)}` : id);

/** How many of some go: of all, where all do. */
export const partOf = (some: number, all: number) => (some === all ? count(all) : `${count(some)} of ${count(all)}`);

export function roomOf({ slots, free, streams, waiting_there: waiting }: Preview): string {
  if (slots === null || free === null) return "its workers have not said";
  const after = free >= streams ? `${count(free - streams)} after it` : "none after it";
  return [`${count(free)} free of ${count(slots)}`, after, ...(waiting ? [`${count(waiting)} wait there`] : [])].join(", ");
}

export const kvOf = ({ kv, kv_after: after }: Preview) => (kv === null || after === null ? "" : `${percent(kv)} → ${percent(after)} %`);

/** What does not fit: a sentence in bold, and the rest. Empty where all fits. */
export function misfitsOf(preview: Preview, to: string): { lead: string; rest: string }[] {
  const { stay, stay_total: all, without_slot: waits } = preview;
  const why = stay.slice(0, SHOWN).map((each) => `${shortId(each.id)}: ${each.message}.`);
  const more = all > SHOWN ? ` And ${count(all - SHOWN)} more.` : "";
  return [
    ...(all ? [{ lead: `${are(all, "request does", "requests do")} not fit.`, rest: `${why.join(" ")}${more} ${all === 1 ? "It stays and ends" : "They stay and end"} where ${all === 1 ? "it is" : "they are"}.` }] : []),
    ...(waits ? [{ lead: `${are(waits, "stream finds", "streams find")} no free slot.`, rest: `${waits === 1 ? "It waits" : "They wait"} in ${to} for one, first in line by age.` }] : []),
  ];
}

/** How a stream of a move does: its shape, and the words beside it. */
export function streamState({ state, why }: Stream, from: string, to: string): [StateName, string] {
  switch (state) {
    case "next":
      return ["starting", `in ${from}, next`];
    case "moving":
      return ["moving", "moving"];
    case "waits":
      return ["starting", `in ${to}, goes on soon`];
    case "moved":
      return ["well", `in ${to}`];
    case "stays":
      return ["warn", `stays in ${from}: ${why}`];
    case "ended":
      return ["well", "had ended"];
  }
}

/** How far it is, at the left and at the right. */
export function headOf(moved: Moved): [string, string] {
  const others = moved.moved - moved.streams_moved;
  const streams = `${count(moved.streams_moved)} of ${count(moved.streams_to_move)} streams moved`;
  const pause = moved.longest_pause_ms === null ? [] : [`longest pause ${decimal(moved.longest_pause_ms / 1000)} s`];
  const rest = [`${count(moved.lost)} lost`, `${count(moved.doubled)} doubled`, ...pause].join(" · ");
  return [others > 0 ? `${streams}, ${are(others, "other request", "other requests")} too` : streams, rest];
}

/** How a run that is over ended. */
export function endOf(state: Schemas["RunState"], moved: Moved | null): string {
  const stay = moved?.stay.length ?? 0;
  const left = stay ? ` ${are(stay, "request stays", "requests stay")} and ${stay === 1 ? "ends" : "end"} there.` : "";
  switch (state) {
    case "done":
      return moved?.newcomers ? "New requests still came after a minute: move again." : `Done.${left}`;
    case "stopped":
      return `Stopped. New requests go there all the same; move again to bring the rest.${left}`;
    case "running":
      return "";
    default:
      return "It ended early. New requests go there all the same; move again to bring the rest.";
  }
}

const TOLD_MS = 3_600_000;

/** The moves that a pool's or a tenant's page tells of: the newest of each tenant, while it goes on, and for an hour where it
 * ended early. `runs`: the newest first. */
export function movesToTell(runs: readonly Schemas["RunSummary"][], of: { pool?: string; tenant?: string }, now: number): MoveRun[] {
  const newest = new Map<string, MoveRun>();
  for (const run of runs) {
    const { move } = run;
    if (!move || (of.pool !== undefined && move.pool !== of.pool && move.to !== of.pool) || (of.tenant !== undefined && move.tenant !== of.tenant)) continue;
    if (!newest.has(move.tenant)) newest.set(move.tenant, { ...run, move });
  }
  return [...newest.values()].filter(({ state, begun }) => state === "running" || (state !== "done" && now - Date.parse(begun ?? "") < TOLD_MS));
}

const ENDED: Partial<Record<Schemas["RunState"], string>> = { stopped: "was stopped", interrupted: "was interrupted: its process ended" };

/** A move as one line. */
export function moveLine({ state, move }: MoveRun): string {
  const way = `${move.tenant} from ${move.pool} to ${move.to}`;
  if (state === "running") return `Moving ${way}: ${count(move.streams_moved)} of ${count(move.streams_to_move)} streams moved.`;
  return `The move of ${way} ${ENDED[state] ?? "failed"}. Move again to bring the rest.`;
}
