// One request's charge in words. Pure.

import type { Schemas } from "../../../shared/api";
import { lasting } from "../../../shared/format";
import { dayAndTime } from "../../../shared/zoned";

export type Charge = Schemas["ExplainedCharge"];
export type Booked = Schemas["BookedRequest"];

const ENDED: Record<string, string> = {
  stop: "Ended by itself (stop)",
  length: "Ended at its greatest length",
  cancelled: "Cancelled: what was written until then is billed",
  blocked: "Blocked by your safety policy: what was released until then is billed",
  deadline: "Ended by its deadline: what was written until then is billed",
  budget: "Ended by a budget: what was written until then is billed",
  slow_reader: "Ended, as it was read too slowly: what was written until then is billed",
  error: "Failed: no output is billed",
};

/** What stands in the place of an amount, where nothing is booked. */
export const STATES: Record<Charge["state"], [title: string, detail: string]> = {
  booked: ["", ""],
  open: ["Not ended yet", "Nothing is booked before its answer ends. Until then it only holds money, if a budget or a wallet limits it."],
  ended: ["Not booked yet", "It has ended. It shows up here within seconds, once it is in the ledger."],
  released: ["Costs nothing", "It was admitted, and no pool took it."],
  held_back: ["Not billed so far", "What was reported of it contradicts itself, so it is held back from the ledger until Parley has decided."],
  dismissed: ["Not billed", "It was held back from the ledger, and Parley decided not to bill it."],
  refused: ["Costs nothing", "It was refused. A refused request costs nothing."],
};

const dates = new Intl.DateTimeFormat("en-GB", { day: "numeric", month: "long", year: "numeric", timeZone: "UTC" });
const whole = new Intl.NumberFormat("en");

/** "12 November 2026, 10:41:07. Ended by itself (stop). Booked to the ledger 1.1 s after the answer." */
export function endedText(booked: Booked, zone: string): string {
  const at = (name: string) => booked.steps.find((step) => step.name === name)?.at_ms ?? 0;
  const [ended, posted] = [at("ended"), at("booked")];
  const [day, time] = dayAndTime(ended, zone);
  const date = dates.format(new Date(`${day}T00:00:00Z`));
  const end = ENDED[booked.reason] ?? `Ended (${booked.reason})`;
  const code = booked.reason === "error" && booked.code ? ` (${booked.code})` : "";
  return `${date}, ${time}. ${end}${code}. Booked to the ledger ${lasting(Math.max(0, posted - ended) / 1000)} after the answer.`;
}

/** Its months: a line that came late counts in the first open one. */
export function monthText(booked: Booked): string {
  return booked.months.map(({ month, closed_ms }) => `${month}, ${closed_ms ? "closed: it does not change any more" : "still open"}`).join("; ");
}

/** An instant as rows have it: with its day where that is another. */
export function moment(ms: number, zone: string, with_ms = false): string {
  const [day, time] = dayAndTime(ms, zone);
  return `${day} ${time}${with_ms ? `.${String(ms % 1000).padStart(3, "0")}` : ""}`;
}

/** The zone with its offset then: "Europe/Berlin (UTC+1)". */
export function zoneText(zone: string, ms: number): string {
  const part = new Intl.DateTimeFormat("en", { timeZone: zone, timeZoneName: "shortOffset" }).formatToParts(ms).find((each) => each.type === "timeZoneName");
  const offset = part?.value.replace("GMT", "UTC") ?? "";
  return offset && offset !== zone ? `${zone} (${offset})` : zone;
}

const CLASSES: Record<string, string> = { input: "Input", cached_input: "Input from cache", output: "Output text", reasoning: "Output reasoning", request: "The request itself" };

/** What a line counts. */
export const classOf = (meter: string) => CLASSES[meter] ?? meter;

/** A price for a million, without zeros that say nothing: 0.180, at least three digits. */
export function priceText(price: { nano: string }, each: boolean): string {
  const nano = each ? BigInt(price.nano) / 1_000_000n : BigInt(price.nano);
  const [units, part] = [nano / 1_000_000_000n, (nano % 1_000_000_000n).toString().padStart(9, "0")];
  const shown = part.replace(/0+$/, "").padEnd(3, "0");
  return `${whole.format(units)}.${shown}`;
}
