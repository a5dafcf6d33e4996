// What keeps a page alive: its questions are asked anew while it is looked at, and at once when something changed.

import { useQuery, useQueryClient, type UseQueryResult } from "@tanstack/react-query";
import { useEffect, useState } from "react";
import { Problem } from "./api";

export const LIVE_MS = 2000;
export const STALE_MS = 5000;

/** An answer that is asked for every two seconds while the page is seen. What was known stays when a call fails. */
export function useLive<T>(key: readonly unknown[], ask: () => Promise<T>, every: number = LIVE_MS): UseQueryResult<T, Problem> {
  return useQuery<T, Problem>({
    queryKey: key,
    queryFn: ask,
    refetchInterval: every,
    retry: false,
    structuralSharing: true,
  });
}

/** Follow the stream of changes: each wakes the questions of this page. Ended by the browser's own reconnecting. */
export function useChanges(): void {
  const queries = useQueryClient();
  useEffect(() => {
    let waiting = 0;
    const stream = new EventSource("/api/changes");
    stream.addEventListener("change", () => {
      window.clearTimeout(waiting);
      waiting = window.setTimeout(() => void queries.invalidateQueries({ refetchType: "active" }), 150);
    });
    return () => {
      window.clearTimeout(waiting);
      stream.close();
    };
  }, [queries]);
}

/** Milliseconds since an answer came, told anew each second; null before the first. */
export function useAge(updatedAt: number): number | null {
  const [now, setNow] = useState(Date.now);
  useEffect(() => {
    const ticking = setInterval(() => setNow(Date.now()), 1000);
    return () => clearInterval(ticking);
  }, []);
  return updatedAt ? Math.max(0, now - updatedAt) : null;
}
