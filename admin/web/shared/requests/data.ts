// The list's questions: requests that run, of one pool or of all, and pages of those that are over.

import { useQuery } from "@tanstack/react-query";
import { api, answered, type Problem, type Schemas } from "../api";
import { usePages } from "../components/load-more";
import { LIVE_MS } from "../live";
import { useSession } from "../session";
import { leavesOutLive, type RequestsFilter } from "./filter";

export type LiveRow = Schemas["ListedRequest"];
type LiveList = Schemas["RequestLine"];
export type EndedRow = Schemas["EndedRequestFacts"];
export type RefusedRow = Schemas["RefusedSends"];

export const PAGE = 50;
export const LIVE_MAX = 200;
const AGAIN_MS = 4000;

/** Pools by name, as far as this caller may know them; null until it is answered. */
export function usePools(): string[] | null {
  const { may } = useSession();
  const { data, isLoading } = useQuery({
    queryKey: ["overview"],
    queryFn: () => answered(api.GET("/api/overview")),
    enabled: may("overview.show"),
    staleTime: 30_000,
  });
  return isLoading ? null : (data?.pools ?? []).map((each) => each.pool).sort();
}

/** Requests that have not ended, the last accepted first. `more`: there are more than are asked for. */
export function useLiveRequests(filter: RequestsFilter, wanted: boolean, limit: number) {
  const { may } = useSession();
  const enabled = wanted && may("requests.list") && !leavesOutLive(filter).length;
  const where = filter.pool ? { pool: filter.pool } : { all_pools: true };
  const asked = useQuery<LiveList, Problem>({
    queryKey: ["requests", "live", filter.pool ?? null, filter.tenant ?? null, limit],
    queryFn: () => answered(api.GET("/api/requests", { params: { query: { limit, ...where, ...(filter.tenant ? { tenant: filter.tenant } : {}) } } })),
    enabled,
    refetchInterval: LIVE_MS,
    retry: false,
  });
  const { data, error, isLoading, dataUpdatedAt } = asked;
  const items = data?.items ?? [];
  const rows = items.filter((row) => !filter.model || row.model === filter.model).sort((one, other) => other.accepted_ms - one.accepted_ms);
  return { enabled, rows, nowMs: data?.now_ms ?? 0, more: items.length >= limit, problem: error, loading: enabled && isLoading, updatedAt: dataUpdatedAt, asked };
}

/** Pages of requests that ended, the last first. */
export function useEndedRequests(filter: RequestsFilter, wanted: boolean) {
  const { may } = useSession();
  const { state: _, outcome, ...rest } = filter;
  const ask = (after: string) => {
    const query = { ...rest, ...(outcome ? { reason: outcome } : {}), limit: PAGE, after };
    return answered(api.GET("/api/ended-requests", { params: { query } }));
  };
  return usePages<EndedRow>(["requests", "ended", rest, outcome], ask, AGAIN_MS, wanted && may("requests.find"));
}

/** Pages of refused sends, the last minute first. */
export function useRefusedSends({ tenant, user, key, code, since, until }: RequestsFilter, wanted: boolean) {
  const { may } = useSession();
  const given = Object.fromEntries(Object.entries({ tenant, user, key, code, since, until }).filter(([, value]) => value));
  const ask = (after: string) => answered(api.GET("/api/refused-requests", { params: { query: { ...given, limit: PAGE, after } } }));
  return usePages<RefusedRow>(["requests", "refused", given], ask, AGAIN_MS, wanted && may("requests.find_refused"));
}
