// What is said of versions of models: where each serves, what is under way, what becomes of pools. Pure.

import type { Schemas } from "../../../shared/api";
import type { Verdict } from "../../../shared/components/sentence";
import type { StateName } from "../../../shared/components/state";
import { count, lasting } from "../../../shared/format";
import type { Desired } from "../pool/words";

export type Version = Schemas["ModelFacts"];
type InPool = Schemas["VersionInPool"];

const many = (number: number, word: string) => `${count(number)} ${word}${number === 1 ? "" : "s"}`;

/** Versions by the name of their model, each the newest first. */
export function byModel(versions: readonly Version[]): [string, Version[]][] {
  const names = [...new Set(versions.map((each) => each.name))].toSorted();
  return names.map((name) => [name, versions.filter((each) => each.name === name).toReversed()]);
}

/** A pool that changes its version, or whose old version is still needed. `told`: how far that is, after its name. */
export type UnderWay = { pool: string; model: string; from: string; to: string; ready: number | null; workers: number; old: readonly InPool[]; why: string; told: string };

/** What is under way, by pool. */
export function underWay(pools: readonly Desired[]): UnderWay[] {
  const rows = pools.map((pool): UnderWay => {
    const versions = pool.observed?.versions ?? [];
    const next = pool.next_version ?? "";
    const old = versions.filter((each) => each.version !== pool.version && each.version !== next);
    const ready = versions.length ? (versions.find((each) => each.version === (next || pool.version))?.ready ?? 0) : null;
    const row = { pool: pool.pool, model: pool.model, from: pool.version, to: next, ready, workers: pool.workers, old, why: pool.observed?.why ?? "" };
    return { ...row, told: toldOf(row) };
  });
  return rows.filter((row) => row.to || row.old.length);
}

function toldOf({ to, ready, workers, old }: Omit<UnderWay, "told">): string {
  const switching = to && `is switching to ${to}: ${ready === null ? "nobody knows how many workers are ready" : `${count(ready)} of ${many(workers, "worker")} ready`}`;
  return [switching, ...old.map(oldText)].filter(Boolean).join("; ");
}

/** What an old version still has. */
export function oldText(old: InPool): string {
  if (!old.requests) return `the old ${old.version} still has ${many(old.workers, "worker")}`;
  return `the old ${old.version} still has ${many(old.requests, "request")}${old.until ? `, at most until ${until(old.until)}` : ""}`;
}

/** A time by which something ends: of today the time of day. */
export function until(time: string, now: number = Date.now()): string {
  const text = new Date(time).toISOString();
  return Date.parse(time) - now < 43_200_000 ? `${text.slice(11, 16)} UTC` : `${text.slice(0, 10)} ${text.slice(11, 16)} UTC`;
}

/** What the page opens with. */
export function sentenceOf(versions: readonly Version[], pools: readonly Desired[]): { state: Verdict; text: string } {
  const used = versions.filter((each) => each.pools.length);
  const active = pools.filter((pool) => pool.state === "active");
  const changes = underWay(pools);
  const none = active.filter((pool) => pool.workers && pool.observed?.ready === 0);
  const blind = changes.some((row) => row.to && row.ready === null);
  const parts = [servesText(used), ...changes.slice(0, 2).map((row) => `pool ${row.pool} ${row.told}`), changes.length > 2 && `${count(changes.length - 2)} more ${changes.length === 3 ? "pool is" : "pools are"} changing`, none.length && `${many(none.length, "pool")} ${none.length === 1 ? "has" : "have"} no ready worker: ${none.map((pool) => pool.pool).slice(0, 3).join(", ")}`];
  return { state: none.length ? "bad" : blind || !used.length ? "warn" : "well", text: `${parts.filter(Boolean).join("; ")}.` };
}

function servesText(used: readonly Version[]): string {
  const pools = used.flatMap((each) => each.pools).length;
  const [only] = used;
  if (!only) return "No version serves in any pool";
  if (used.length === 1) return `${only.name} ${only.version} serves in ${many(pools, "pool")}`;
  const models = new Set(used.map((each) => each.name)).size;
  return `${models === 1 ? `${count(used.length)} versions of ${only.name}` : many(models, "model")} serve in ${many(pools, "pool")}`;
}

/** What stands under it. */
export function detailOf(versions: readonly Version[]): string {
  const unproved = versions.filter((each) => !isProved(each)).length;
  const named = `${many(versions.length, "version")} of ${many(new Set(versions.map((each) => each.name)).size, "model")}.`;
  return unproved ? `${named} ${count(unproved)} not proved yet: ${unproved === 1 ? "its" : "their"} first worker does that before a switch.` : named;
}

const isProved = (version: Version) => !version.proved.startsWith("not yet");

/** How a version was proved, short; the whole is told on hover. */
export const provedOf = (version: Version) => (isProved(version) ? version.proved.replace(/ at \d{4}-.*$/, "") : "not yet");

/** What a version is to the pools, as a shape and a word. */
export function stateOf(version: Version): { shape: StateName; word: string } {
  const needed = version.seen.some((each) => each.requests && !version.pools.includes(each.pool));
  switch (version.state) {
    case "in_use": return { shape: "well", word: "in use" };
    case "next": return { shape: "starting", word: "next" };
    case "earlier": return needed ? { shape: "draining", word: "still needed" } : { shape: "cancelled", word: "earlier" };
    default: return needed ? { shape: "draining", word: "still needed" } : { shape: "cancelled", word: version.state };
  }
}

/** What a version is in each pool: after the pool's name. */
export function poolsOf(version: Version): { pool: string; says: string }[] {
  const ready = (pool: string) => {
    const seen = version.seen.find((each) => each.pool === pool);
    return seen ? `${count(seen.ready)} of ${count(seen.desired)} ready` : "";
  };
  const needs = version.seen.filter((each) => each.requests && ![...version.pools, ...version.next_in].includes(each.pool));
  const earlier = version.earlier_in.filter((pool) => !needs.some((each) => each.pool === pool));
  return [
    ...version.pools.map((pool) => ({ pool, says: ready(pool) })),
    ...version.next_in.map((pool) => ({ pool, says: ["next", ready(pool)].filter(Boolean).join(", ") })),
    ...needs.map((each) => ({ pool: each.pool, says: `${many(each.requests, "request")}${each.until ? ` until ${until(each.until)}` : ""}` })),
    ...earlier.map((pool) => ({ pool, says: "earlier" })),
  ];
}

/** What becomes of a pool, in the words of a dry run. */
export function becomesOf(pool: Schemas["PoolVersion"]): string {
  const { before, version, next, workers, cut_off_seconds: cutOff } = pool;
  if (next) {
    const ready = workers === 1 ? "its worker of it is" : `its ${count(workers)} workers of it are`;
    const end = cutOff ? `; what still needs ${before} ends ${lasting(cutOff)} later` : "";
    return `switches to ${next} once ${ready} ready, and serves with ${before} until then${end}`;
  }
  return version === before ? `stays with ${version}` : `uses ${version} at once, before ${before}`;
}
