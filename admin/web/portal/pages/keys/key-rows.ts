// The rows of the table of keys: a key with those that it replaces, what it spent, and sums that add up. Pure.

import { centsOf, count, decimal } from "../../../shared/format";
import { oldsOf, works, type Key } from "../../../shared/api-keys/key-words";
import type { Schemas } from "../../../shared/api";
import { zonedDay, zonedMinute } from "../../../shared/zoned";

export type KeyRow = { kind: "key"; id: string; key: Key; olds: Key[]; spent: bigint; used: string | null };
export type SumRow = { kind: "sum"; id: string; title: string; cents: bigint; tone: "line" | "soft" | "total" };
export type Row = KeyRow | SumRow;
export type Spent = { of: Map<string, bigint>; others: bigint; more: number; total: bigint };

/** What keys cost this month, by their ids; empty: what no key did. */
export function spentOf(statement: Schemas["Statement"]): Spent {
  const of = new Map(statement.lines.map((line) => [line.of, BigInt(line.sums.cost.nano)]));
  return { of, others: BigInt(statement.others.cost.nano), more: statement.more, total: BigInt(statement.total.cost.nano) };
}

/** A row for each key that works and was not replaced by one that does; the dearest first where costs are known. */
export function keyRows(keys: readonly Key[], spent: Spent | null): KeyRow[] {
  const byId = new Map(keys.map((key) => [key.key, key]));
  const replaced = (key: Key) => {
    const next = byId.get(key.successor ?? "");
    return next !== undefined && works(next);
  };
  const rows = keys.filter((key) => works(key) && !replaced(key)).map((key) => rowOf(key, keys, spent));
  return spent ? rows.toSorted((one, other) => (one.spent === other.spent ? 0 : one.spent > other.spent ? -1 : 1)) : rows;
}

function rowOf(key: Key, keys: readonly Key[], spent: Spent | null): KeyRow {
  const olds = oldsOf(key, keys);
  const all = [key, ...olds];
  const used = all.map((each) => each.last_used).filter((time) => time !== null).toSorted().at(-1) ?? null;
  return { kind: "key", id: key.key, key, olds, spent: all.reduce((sum, each) => sum + (spent?.of.get(each.key) ?? 0n), 0n), used };
}

/** Keys that are let in no more, the last first. */
export const endedKeys = (keys: readonly Key[]) => keys.filter((key) => !works(key)).toReversed();

/** The rows below the keys, which bring their cents to those of the month. `whole`: all keys are listed. */
export function sumRows(rows: readonly KeyRow[], spent: Spent, whole: boolean): SumRow[] {
  const listed = new Set(rows.flatMap((row) => [row.id, ...row.olds.map((old) => old.key)]));
  const pools = spent.of.get("") ?? 0n;
  const ended = [...spent.of].filter(([key]) => key && !listed.has(key)).reduce((sum, [, nano]) => sum + nano, 0n);
  const sums: SumRow[] = [];
  const add = (id: string, title: string, nano: bigint) => sums.push({ kind: "sum", id, title, cents: centsOf(nano), tone: "line" });
  if (ended) add("ended", whole ? "Ended keys" : "Keys not loaded, and ended ones", ended);
  if (spent.more) add("others", `${count(spent.more)} other keys`, spent.others);
  if (pools) add("pools", "Pool time, of no key", pools);
  const shown = [...rows.map((row) => centsOf(row.spent)), ...sums.map((row) => row.cents)].reduce((sum, each) => sum + each, 0n);
  const rest = centsOf(spent.total) - shown;
  if (rest) sums.push({ kind: "sum", id: "rounding", title: "Rounding to cents", cents: rest, tone: "soft" });
  return [...sums, { kind: "sum", id: "total", title: "Month to date", cents: centsOf(spent.total), tone: "total" }];
}

const DAY_MS = 86_400_000;
const UNUSED_DAYS = 30;
const SOON_DAYS = 30;

/** Days since a key was used, where that is long; null: it is in use, or new. More than 100: nobody knows how many. */
export function unusedDays(row: KeyRow, now: number): number | null {
  const since = row.used ?? (row.key.created && now - new Date(row.key.created).getTime() < 100 * DAY_MS ? row.key.created : null);
  const days = since ? Math.floor((now - new Date(since).getTime()) / DAY_MS) : 101;
  return days >= UNUSED_DAYS ? days : null;
}

export const unusedWords = (days: number) => (days > 100 ? "unused 100 days and more" : `unused ${days} days`);

/** The day on which a key ends, where that is soon. */
export function endsSoon(row: KeyRow, now: number): string | null {
  const left = row.key.expires ? (new Date(row.key.expires).getTime() - now) / DAY_MS : Infinity;
  return left < SOON_DAYS ? (left < 2 ? `expires in ${decimal(left * 24, 0)} h` : `expires in ${decimal(Math.floor(left), 0)} days`) : null;
}

const HOUR_MS = 3_600_000;

/** When a key was used last. Its hour is known, so of today that is told, of other days the date. */
export function usedWords(used: string | null, zone: string, now: number): string {
  if (!used) return "never";
  const at = new Date(used).getTime();
  if (now - at < HOUR_MS) return "this hour";
  return zonedDay(used, zone) === zonedDay(new Date(now), zone) ? `after ${zonedMinute(used, zone).slice(11)}` : zonedDay(used, zone);
}

/** How many keys, and whether some lie idle: the line below the page's title. */
export function summary(rows: readonly KeyRow[], now: number, whole: boolean): string {
  const idle = rows.map((row) => unusedDays(row, now)).filter((days) => days !== null);
  const number = `${whole ? "" : "The first "}${count(rows.length)} ${rows.length === 1 ? "key" : "keys"}`;
  if (!idle.length) return `${number}.`;
  const longest = Math.max(...idle);
  const long = longest > 100 ? "100 days and more" : `${longest} days`;
  return `${number}; ${idle.length === 1 ? `1 has not been used for ${long}` : `${count(idle.length)} have not been used for a month, one for ${long}`}.`;
}
