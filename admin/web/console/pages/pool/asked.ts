// What the pools' pages ask for.

import { api, answered, type Schemas } from "../../../shared/api";
import { useLive } from "../../../shared/live";
import { useSession } from "../../../shared/session";
import { busyHours, moneyOf, type BusyHours, type Hour, type PoolMoney, type Use } from "./money";
import type { Desired } from "./words";

const USAGE_MS = 60_000;
const DESIRED_MS = 4_000;
export const REQUESTS_MAX = 1000;

export const useOverview = () => useLive(["overview"], () => answered(api.GET("/api/overview")));

/** Money of the last 24 hours by pool; none for who may not see it. */
export function useMoney(): { of: (pool: string) => PoolMoney | null; all: PoolMoney | null; shown: boolean } {
  const { may } = useSession();
  const shown = may("pools.usage");
  const ask = async () => (shown ? (await answered(api.GET("/api/pools/usage"))).uses : ([] as Use[]));
  const { data } = useLive(["pools usage"], ask, USAGE_MS);
  return { shown, all: moneyOf(data ?? []), of: (pool) => moneyOf((data ?? []).filter((use) => use.pool === pool)) };
}

/** How busy pools were in each of the last 24 hours; null: no GPU was ready in any. */
export function useHours(): (pool: string) => BusyHours | null {
  const { may } = useSession();
  const shown = may("pools.hours");
  const ask = async () => (shown ? (await answered(api.GET("/api/pools/hours"))).items : ([] as Hour[]));
  const { data, dataUpdatedAt } = useLive(["pools hours"], ask, USAGE_MS);
  return (pool) => {
    const its = (data ?? []).filter((hour) => hour.pool === pool);
    return its.length ? busyHours(its, dataUpdatedAt) : null;
  };
}

/** What tenants take of a pool now; none for who may not see it. */
export function useShares(pool: string): readonly Schemas["TenantShare"][] {
  const { may } = useSession();
  const shown = may("pools.shares");
  const ask = async () => (shown ? (await answered(api.GET("/api/pools/{pool}/shares", { params: { path: { pool } } }))).tenants : []);
  return useLive(["pool shares", pool], ask).data ?? [];
}

/** A pool's workers as their rows have them; none for who may not see them. */
export function useWorkers(pool: string) {
  const { may } = useSession();
  const shown = may("workers.list");
  const { data } = useLive(["workers", pool], async () => (shown ? (await answered(api.GET("/api/workers", { params: { query: { pool } } }))).items : []));
  return data ?? [];
}

/** A pool's requests that have not ended. */
export function useRequests(pool: string) {
  const { may } = useSession();
  const shown = may("requests.list");
  const ask = async () => (shown ? answered(api.GET("/api/requests", { params: { query: { pool, limit: REQUESTS_MAX } } })) : { items: [], now_ms: 0 });
  const { data } = useLive(["pool requests", pool], ask);
  return { shown, requests: data?.items, nowMs: data?.now_ms ?? 0 };
}

/** What pools should be, by name; none for who may not see it. */
export function useDesired(): ReadonlyMap<string, Desired> {
  const { may } = useSession();
  const shown = may("pools.list");
  const ask = async () => (shown ? (await answered(api.GET("/api/pools", { params: { query: { limit: 1000 } } }))).items : ([] as Desired[]));
  const { data } = useLive(["pools desired"], ask, DESIRED_MS);
  return new Map((data ?? []).map((each) => [each.pool, each]));
}
