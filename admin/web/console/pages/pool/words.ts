// What is said of pools: how they do, and what they earned and cost. Pure.

import type { Schemas } from "../../../shared/api";
import type { Verdict } from "../../../shared/components/sentence";
import { count, type Money } from "../../../shared/format";

export type Pool = Schemas["OverviewPool"];
export type Use = Schemas["PoolUseFacts"];
export type Desired = Schemas["PoolFacts"];
export type Listed = Schemas["ListedRequest"];
type State = Exclude<Verdict, "unknown">;

const NUMBERS = ["no", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine"];
const SEVERITY: readonly State[] = ["bad", "warn", "well"];

/** A number as a sentence has it: up to nine as a word. */
const word = (number: number) => NUMBERS[number] ?? count(number);
const listed = (parts: readonly string[]) => (parts.length > 1 ? `${parts.slice(0, -1).join(", ")} and ${parts.at(-1)}` : (parts[0] ?? ""));

/** How a pool does. `says`: what follows its name; empty where it is well. */
export function stateOf(pool: Pool): { state: State; says: string } {
  const serving = pool.workers.filter((each) => each.state === "serving" || each.state === "slow").length;
  const lost = pool.workers.filter((each) => each.state === "lost").length;
  const slow = pool.workers.filter((each) => each.state === "slow").length;
  if (!serving) {
    const starting = pool.workers.some((each) => each.state === "starting");
    const says = starting ? "has no worker that serves yet" : "has no worker that serves";
    return { state: pool.waiting || !starting ? "bad" : "warn", says };
  }
  const full = pool.waiting > 0 && pool.running >= pool.slots;
  const parts = [full && "is full", lost && `lost ${lost === 1 ? "a worker" : `${word(lost)} workers`}`, slow && !full && !lost && `has ${slow === 1 ? "a slow worker" : `${word(slow)} slow workers`}`];
  const says = listed(parts.filter((part): part is string => Boolean(part)));
  return { state: full || lost ? "bad" : slow ? "warn" : "well", says };
}

/** The sentence over all pools: those in trouble by name, the others counted. */
export function sentenceOf(pools: readonly Pool[]): { state: Verdict; text: string } {
  const told = pools.map((pool) => ({ pool: pool.pool, ...stateOf(pool) }));
  const troubled = told.filter((each) => each.state !== "well").toSorted((one, other) => SEVERITY.indexOf(one.state) - SEVERITY.indexOf(other.state));
  const well = told.length - troubled.length;
  if (!told.length) return { state: "unknown", text: "No pool has workers yet." };
  if (!troubled.length) return { state: "well", text: well === 1 ? `${told[0]?.pool} is well.` : `All ${word(well)} pools are well.` };
  const named = troubled.slice(0, 2).map((each) => `${each.pool} ${each.says}`);
  const others = troubled.length - named.length;
  const rest = [...named, others && `${word(others)} more ${others === 1 ? "needs" : "need"} you`, well && `${word(well)} ${well === 1 ? "pool is" : "pools are"} well`];
  return { state: troubled[0]?.state ?? "warn", text: `${rest.filter(Boolean).join("; ")}.` };
}

/** What stands under it. */
export function detailOf(pools: readonly Pool[]): string {
  const workers = pools.flatMap((pool) => pool.workers);
  const serving = workers.filter((each) => each.state === "serving" || each.state === "slow").length;
  const total = (of: (pool: Pool) => number) => pools.reduce((sum, pool) => sum + of(pool), 0);
  return `${count(serving)} of ${count(workers.length)} workers serve; ${count(total((pool) => pool.running))} of ${count(total((pool) => pool.slots))} slots are in use.`;
}

/** One pool in a line below its name. */
export function lineOf(pool: Pool): string {
  const serving = pool.workers.filter((each) => each.state === "serving" || each.state === "slow").length;
  const { says } = stateOf(pool);
  const whys = pool.workers.filter((each) => each.state !== "serving" && each.why).map((each) => `${each.worker}: ${each.why}`);
  const parts = [`${count(serving)} of ${count(pool.workers.length)} workers serve`, says && `It ${says}`, pool.why, ...whys.slice(0, 2)];
  return `${parts.filter(Boolean).join(". ")}.`;
}

export const whoseOf = (pool: Pool) => (pool.shared ? "shared" : `for ${pool.tenants.join(", ")}`);

/** What a pool did and earned in a window, all its owners and types of GPU together. Shares null: of nothing. */
export type PoolMoney = { hours: number; busy: number | null; committed: number | null; earned: Money; cost: Money | null; idleCost: Money | null; margin: Money | null };

export function moneyOf(uses: readonly Use[]): PoolMoney | null {
  if (!uses.length) return null;
  const seconds = (of: (use: Use) => number) => uses.reduce((sum, use) => sum + of(use), 0);
  const nano = (of: (use: Use) => bigint) => uses.reduce((sum, use) => sum + of(use), 0n);
  const usd = (value: bigint): Money => ({ nano: String(value), currency: "USD" });
  const [ready, reserved] = [seconds((use) => use.ready_gpu_seconds), seconds((use) => use.reserved_gpu_seconds)];
  const earned = nano((use) => BigInt(use.gpu.nano) + BigInt(use.tokens.nano));
  const known = uses.every((use) => use.cost !== null);
  const cost = nano((use) => BigInt(use.cost?.nano ?? 0));
  const idle = nano((use) => (use.ready_gpu_seconds ? (BigInt(use.cost?.nano ?? 0) * BigInt(use.idle_gpu_seconds)) / BigInt(use.ready_gpu_seconds) : 0n));
  return {
    hours: ready / 3600,
    busy: ready ? seconds((use) => use.busy_gpu_seconds) / ready : null,
    committed: reserved ? seconds((use) => use.committed_gpu_seconds) / reserved : null,
    earned: usd(earned),
    cost: known ? usd(cost) : null,
    idleCost: known ? usd(idle) : null,
    margin: known && ready ? usd(((earned - cost) * 3600n) / BigInt(ready)) : null,
  };
}

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

/** How many of the desired workers serve, with the reason where they differ. */
export function observedOf(pool: Pool, desired: Desired): { state: State; number: string; why: string } {
  const serving = pool.workers.filter((each) => each.state === "serving" || each.state === "slow").length;
  const starting = pool.workers.filter((each) => each.state === "starting").length;
  const number = `${count(serving)} of ${count(desired.workers)}`;
  if (desired.state === "draining") return { state: "warn", number, why: "draining: takes nothing new" };
  if (serving === desired.workers) return { state: "well", number, why: "as desired" };
  if (serving > desired.workers) return { state: "warn", number, why: `${word(serving - desired.workers)} too many` };
  const lacks = desired.workers - serving;
  return { state: starting >= lacks ? "warn" : "bad", number, why: starting ? `${word(starting)} starting` : `lacks ${word(lacks)}` };
}
