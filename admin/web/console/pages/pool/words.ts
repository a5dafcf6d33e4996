// What is said of pools: how they do, beside how they should. Pure.

import type { Change, Schemas } from "../../../shared/api";
import type { Verdict } from "../../../shared/components/sentence";
import type { StateName } from "../../../shared/components/state";
import { ago, count, lasting } from "../../../shared/format";

export type Pool = Schemas["OverviewPool"];
export type Desired = Schemas["PoolFacts"];
export type Listed = Schemas["ListedRequest"];
type State = Exclude<Verdict, "unknown">;

const NUMBERS = ["no", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine"];
const SEVERITY: readonly State[] = ["bad", "warn", "well"];

/** A number as a sentence has it: up to nine as a word. */
const word = (number: number) => NUMBERS[number] ?? count(number);
const listed = (parts: readonly string[]) => (parts.length > 1 ? `${parts.slice(0, -1).join(", ")} and ${parts.at(-1)}` : (parts[0] ?? ""));

/** How many workers take requests. */
export const servingOf = (pool: Pool) => pool.workers.filter((each) => each.state === "serving" || each.state === "slow").length;

/** Workers that should be there and are not; of a pool that drains none are missing. */
const lacking = (pool: Pool, desired: Desired | undefined) => (desired?.state === "active" ? Math.max(0, desired.workers - servingOf(pool)) : 0);

/** How a pool does. `says`: what follows its name; empty where it is well. */
export function stateOf(pool: Pool, desired?: Desired): { state: State; says: string } {
  const serving = servingOf(pool);
  const many = (state: string) => pool.workers.filter((each) => each.state === state).length;
  const [lost, slow, starting, lacks] = [many("lost"), many("slow"), many("starting"), lacking(pool, desired)];
  if (!serving) {
    if (desired && !lacks && !pool.waiting) return { state: "well", says: "" };
    const says = starting ? "has no worker that serves yet" : "has no worker that serves";
    return { state: pool.waiting || !starting ? "bad" : "warn", says };
  }
  const full = pool.waiting > 0 && pool.running >= pool.slots;
  const missing = lacks ? lacksOf(lacks, desired?.workers ?? 0) : lost ? `lost ${lost === 1 ? "a worker" : `${word(lost)} workers`}` : "";
  const parts = [full && "is full", missing, slow && !full && !missing && `has ${slow === 1 ? "a slow worker" : `${word(slow)} slow workers`}`];
  const says = listed(parts.filter((part): part is string => Boolean(part)));
  return { state: full || lost || lacks > starting ? "bad" : slow || lacks ? "warn" : "well", says };
}

const lacksOf = (lacks: number, of: number) => (lacks === 1 ? "lacks a worker" : of > 9 ? `lacks ${count(lacks)} of ${count(of)} workers` : `lacks ${word(lacks)} workers`);

/** The sentence over all pools: those in trouble by name, the others counted. */
export function sentenceOf(pools: readonly Pool[], desired: ReadonlyMap<string, Desired>): { state: Verdict; text: string } {
  const told = pools.toSorted((one, other) => other.waiting - one.waiting).map((pool) => ({ pool: pool.pool, ...stateOf(pool, desired.get(pool.pool)) }));
  const troubled = told.filter((each) => each.state !== "well").toSorted((one, other) => SEVERITY.indexOf(one.state) - SEVERITY.indexOf(other.state));
  const others = told.filter((each) => each.state === "well");
  const well = others.length && others.every((each) => desired.has(each.pool)) ? "as desired" : "well";
  if (!told.length) return { state: "unknown", text: "No pool has workers yet." };
  if (!troubled.length) return { state: "well", text: others.length === 1 ? `${others[0]?.pool} is ${well}.` : `${others.length === 2 ? "Both" : `All ${word(others.length)}`} pools are ${well}.` };
  const named = troubled.slice(0, 2).map((each) => `${each.pool} ${each.says}`);
  const more = troubled.length - named.length;
  const rest = [...named, more && `${word(more)} more ${more === 1 ? "needs" : "need"} you`, others.length && `${word(others.length)} ${others.length === 1 ? "pool is" : "pools are"} ${well}`];
  return { state: troubled[0]?.state ?? "warn", text: `${rest.filter(Boolean).join("; ")}.` };
}

/** What stands under it. `idle`: what GPUs without requests cost in a day, empty where nobody knows. */
export function detailOf(pools: readonly Pool[], idle: string): string {
  const workers = pools.flatMap((pool) => pool.workers);
  const total = (of: (pool: Pool) => number) => pools.reduce((sum, pool) => sum + of(pool), 0);
  const served = `${count(total(servingOf))} of ${count(workers.length)} workers serve; ${count(total((pool) => pool.running))} of ${count(total((pool) => pool.slots))} slots are in use.`;
  return idle ? `${served} Idle GPUs cost ${idle} USD a day.` : served;
}

/** One pool in a line below its name. */
export function lineOf(pool: Pool, desired?: Desired): string {
  const says = servingOf(pool) ? stateOf(pool).says : "";
  const serves = desired?.state === "active" ? `${count(servingOf(pool))} of ${count(desired.workers)} desired workers serve` : `${count(servingOf(pool))} of ${count(pool.workers.length)} workers serve`;
  const drains = desired?.state === "draining" && `It is drained: ${leftOf(pool)}`;
  const told = desired && lacking(pool, desired) ? observedOf(pool, desired).why : "";
  const why = /^\d+ of \d+ workers are ready$/.test(told) ? startsText(pool) : capital(told);
  const whys = pool.workers.filter((each) => each.state !== "serving" && each.why).map((each) => `${each.worker}: ${each.why}`);
  const parts = [serves, drains, says && `It ${says}`, why, pool.why && !why && capital(pool.why), ...whys.slice(0, 2)];
  return parts.filter(Boolean).map((part) => (String(part).endsWith(".") ? part : `${part}.`)).join(" ");
}

/** What a drained pool still has. */
function leftOf(pool: Pool): string {
  const open = pool.running + pool.waiting;
  return open ? `${count(open)} ${open === 1 ? "request is" : "requests are"} still there` : "nothing runs or waits there";
}

/** What is to be waited for where workers are missing and nothing hinders them. */
const startsText = (pool: Pool) => (pool.workers.some((each) => each.state === "starting") ? "A worker starts: it loads the model first, which takes a minute or more." : "");

const capital = (text: string) => text.charAt(0).toUpperCase() + text.slice(1);

export const whoseOf = (pool: Pool) => (pool.shared ? "shared" : `for ${pool.tenants.join(", ")}`);

/** Whose requests a pool has, the most of them first. */
export type TenantHere = { tenant: string; running: number; waiting: number; other: number; tokens: number };

export function tenantsHere(requests: readonly Listed[]): TenantHere[] {
  const rows = grouped(requests, (each) => each.tenant_name || each.tenant);
  const all = [...rows].map(([tenant, its]) => {
    const [running, waiting] = ["running", "queued"].map((status) => its.filter((each) => each.status === status).length) as [number, number];
    return { tenant, running, waiting, other: its.length - running - waiting, tokens: its.reduce((sum, each) => sum + each.tokens, 0) };
  });
  return all.toSorted((one, other) => other.running - one.running || other.waiting - one.waiting || one.tenant.localeCompare(other.tenant));
}

/** What waits by class, and for how many seconds the oldest of each does. */
export type WaitingHere = { name: string; waiting: number; oldest: number };

export function waitingHere(requests: readonly Listed[], nowMs: number): WaitingHere[] {
  const rows = grouped(requests.filter((each) => each.status === "queued"), (each) => each.priority);
  return [...rows].map(([name, its]) => ({ name, waiting: its.length, oldest: Math.max(...its.map((each) => Math.max(0, nowMs - each.accepted_ms))) / 1000 }));
}

function grouped<Item>(items: readonly Item[], by: (item: Item) => string): Map<string, Item[]> {
  const groups = new Map<string, Item[]>();
  for (const item of items) {
    const group = groups.get(by(item));
    if (group) group.push(item);
    else groups.set(by(item), [item]);
  }
  return groups;
}

/** How many of the desired workers serve, with the reason where they differ and since when. */
export function observedOf(pool: Pool, desired: Desired): { state: StateName; number: string; why: string; since: string } {
  const [serving, lacks, seen] = [servingOf(pool), lacking(pool, desired), desired.observed];
  const starting = pool.workers.filter((each) => each.state === "starting").length;
  const number = `${count(serving)} of ${count(desired.workers)}`;
  const since = seen?.since ?? "";
  if (desired.state === "draining") return { state: "draining", number, why: `drained: ${leftOf(pool)}`, since: "" };
  if (lacks) return { state: starting >= lacks ? "starting" : "bad", number, why: seen?.why || (starting ? `${word(starting)} starting` : `lacks ${word(lacks)}`), since };
  if (serving > desired.workers) return { state: "warn", number, why: seen?.why || `${word(serving - desired.workers)} too many`, since };
  if (seen?.as_desired === false && seen.why) return { state: "warn", number, why: seen.why, since };
  return { state: "well", number, why: "as desired", since };
}

/** For how long something has been so. */
export const lastingSince = (since: string, now: number = Date.now()) => lasting(Math.max(1, (now - Date.parse(since)) / 1000));

/** A pool that should be, and of which nothing is there yet. */
export function emptyPool(desired: Desired): Pool {
  const { pool, model, version, tenant } = desired;
  return { pool, model: `${model} ${version}`, shared: !tenant, tenants: tenant ? [tenant] : [], running: 0, slots: 0, kv: null, waiting: 0, workers: [], why: "" };
}

/** What is told where somebody else resized the pool meanwhile; null: something else was changed. */
export function resizedMeanwhile([last]: readonly Change[]): { told: string; save: string } | null {
  const [before, after] = [last?.before, last?.after].map((row) => (row ?? {}) as { workers?: number; reason?: string });
  if (!last || after?.workers === undefined || after.workers === before?.workers) return null;
  const why = after.reason ? ` (“${after.reason}”)` : "";
  const workers = `${count(after.workers)} ${after.workers === 1 ? "worker" : "workers"}`;
  return { told: `${last.author || "Another operator"} set this pool to ${workers}${last.at ? ` ${ago(last.at)}` : ""}${why}.`, save: `Save over ${count(after.workers)}` };
}

/** Whether a tenant takes half as much again as its fair share, or more, while others wait. */
export function isOverShare(its: Schemas["TenantShare"], all: readonly Schemas["TenantShare"][]): boolean {
  const others = all.some((each) => each !== its && each.waiting > 0);
  return others && its.share !== null && its.share >= 1.5 * its.fair_share;
}
