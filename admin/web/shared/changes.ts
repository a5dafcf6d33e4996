// What a change did, from the rows before and after it. Pure.

import { written } from "./format";

const UNTOLD = new Set(["id", "reason", "tenant_id", "tenant"]);

type Names = Readonly<Record<string, string>>;

/** `limit 8 → 12, mode enforce → shadow`: each fact that differs. `names`: of things, by their ids. */
export function differences(before: unknown, after: unknown, names: Names = {}): string {
  const [old, now] = [asFacts(before), asFacts(after)];
  const differ = Object.keys({ ...old, ...now }).filter((name) => !UNTOLD.has(name) && !name.endsWith("_ms") && JSON.stringify(old[name] ?? null) !== JSON.stringify(now[name] ?? null));
  return differ.map((name) => `${called(name)} ${word(shown(name, old[name]), names)} → ${word(shown(name, now[name]), names)}${unitOf(name)}`).join(", ");
}

/** What something new was made with, of the facts that say how much it allows: `limit 0.67 USD`. */
export function beginnings(after: unknown): string {
  const facts = asFacts(after);
  const told = AMOUNTS.filter((name) => facts[name] !== undefined && facts[name] !== null);
  return told.map((name) => `${called(name)} ${word(shown(name, facts[name]), {})}${unitOf(name)}`).join(", ");
}

const AMOUNTS = ["limit_nano", "limit", "burst"] as const;
const NANO = /_nano$/;

const called = (name: string) => name.replace(NANO, "").replaceAll("_", " ");
const unitOf = (name: string) => (NANO.test(name) ? " USD" : "");

/** An amount to the last digit that is not zero, but at least to cents: 0.67, 0.000031. */
function shown(name: string, value: unknown): unknown {
  if (!NANO.test(name) || value === undefined || value === null || !/^-?\d+$/.test(String(value))) return value;
  const [units = "", part = ""] = written(BigInt(String(value)), 9).replaceAll(" ", "").split(".");
  return `${units}.${part.replace(/0+$/, "").padEnd(2, "0")}`;
}

const asFacts = (value: unknown) => (typeof value === "object" && value !== null ? (value as Record<string, unknown>) : {});
const word = (value: unknown, names: Names) => (value === undefined || value === null || value === "" ? "–" : typeof value === "object" ? JSON.stringify(value) : (names[String(value)] ?? shortened(String(value))));

/** A name as it is, an id by its end. */
export const shortened = (text: string) => (/^[0-9a-f]{8}-[0-9a-f-]{27}$/.test(text) ? `…${text.slice(-8)}` : text);

const DONE: Record<string, string> = { override: "overridden", set: "set", withdraw: "withdrawn", stop: "stopped", cancel: "cancelled", find: "sought", show: "shown" };
const REGULAR = new Set("add approve close correct create declare delete drain edit end expire explain export grant kill link list migrate move open refund reject remove reopen revoke rotate test use void".split(" "));

/** An action as what was done: key.create is `key created`; what is no one verb stays as it is, with a colon. */
export function doneOf(action: string): string {
  const [thing = "", verb = ""] = action.replaceAll("_", " ").split(".");
  const done = DONE[verb] ?? (REGULAR.has(verb) ? `${verb}${verb.endsWith("e") ? "d" : "ed"}` : undefined);
  return done ? `${thing} ${done}` : [thing, verb].filter(Boolean).join(": ");
}
