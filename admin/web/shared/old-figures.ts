// Whether what a page shows is old: some of its questions fail, and what was answered before stays.

import { notifyManager, useQueryClient, type QueryCache } from "@tanstack/react-query";
import { useCallback, useSyncExternalStore } from "react";

/** When the oldest answer came (ms) that is shown though it was asked for again in vain; null where there is none. */
export function useOldFigures(): number | null {
  const cache = useQueryClient().getQueryCache();
  const subscribe = useCallback((told: () => void) => cache.subscribe(notifyManager.batchCalls(told)), [cache]);
  return useSyncExternalStore(subscribe, () => oldestKept(cache));
}

function oldestKept(cache: QueryCache): number | null {
  const kept = cache.getAll().filter((query) => query.state.status === "error" && query.state.dataUpdatedAt > 0 && query.isActive());
  return kept.length ? Math.min(...kept.map((query) => query.state.dataUpdatedAt)) : null;
}
