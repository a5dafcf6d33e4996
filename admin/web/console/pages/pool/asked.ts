// What the pools' pages ask for.

import { api, answered } from "../../../shared/api";
import { useLive } from "../../../shared/live";
import { useSession } from "../../../shared/session";
import { moneyOf, type Desired, type PoolMoney, type Use } from "./words";

const USAGE_MS = 60_000;
const DESIRED_MS = 10_000;
export const REQUESTS_MAX = 1000;

export const useOverview = () => useLive(["overview"], () => answered(api.GET("/api/overview")));

/** This month's money by pool; empty for who may not see it. */
export function useMonth(): { month: string; of: (pool: string) => PoolMoney | null; shown: boolean } {
  const { may } = useSession();
  const shown = may("pools.usage");
  const month = new Date().toISOString().slice(0, 7);
  const ask = async () => (shown ? (await answered(api.GET("/api/pools/usage", { params: { query: { month } } }))).uses : ([] as Use[]));
  const { data } = useLive(["pools usage", month], ask, USAGE_MS);
  return { month, shown, of: (pool) => moneyOf((data ?? []).filter((use) => use.pool === pool)) };
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
