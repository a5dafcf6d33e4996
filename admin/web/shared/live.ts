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

const [AGAIN_MS, AWAY_MS] = [5000, 3000];

/** Follow the stream of changes: each wakes the questions of this page, and so do a break that lasts and its end. The
 * browser connects again by itself after a break, and not after a refusal. */
export function useChanges(): void {
  const queries = useQueryClient();
  useEffect(() => {
    let [waking, connecting, breaking, away] = [0, 0, 0, false];
    let stream: EventSource;
    const wake = () => {
      window.clearTimeout(waking);
      waking = window.setTimeout(() => void queries.invalidateQueries({ refetchType: "active" }), 150);
    };
    const connect = () => {
      stream = new EventSource("/api/changes");
      stream.addEventListener("change", wake);
      stream.addEventListener("open", () => {
        window.clearTimeout(breaking);
        if (away) wake();
        [breaking, away] = [0, false];
      });
      stream.addEventListener("error", () => {
        breaking ||= window.setTimeout(() => {
          away = true;
          wake();
        }, AWAY_MS);
        if (stream.readyState === EventSource.CLOSED) connecting = window.setTimeout(connect, AGAIN_MS);
      });
    };
    connect();
    return () => {
      window.clearTimeout(waking);
      window.clearTimeout(connecting);
      window.clearTimeout(breaking);
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

const LATE_MS = 1500;

/** True once a page was waited for so long that it would look blank. */
export function useLate(): boolean {
  const [late, setLate] = useState(false);
  useEffect(() => {
    const waiting = setTimeout(() => setLate(true), LATE_MS);
    return () => clearTimeout(waiting);
  }, []);
  return late;
}
