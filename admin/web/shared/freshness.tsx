// How fresh the numbers of the page are: its question says so here, and the top bar and the page's sentence show it.

import { createContext, use, useEffect, useState, type ReactNode } from "react";
import { STALE_MS, useAge } from "./live";

type Freshness = { updatedAt: number; report: (updatedAt: number) => void };
const FreshnessContext = createContext<Freshness>({ updatedAt: 0, report: () => undefined });

export function FreshnessProvider({ children }: { children: ReactNode }) {
  const [updatedAt, report] = useState(0);
  return <FreshnessContext value={{ updatedAt, report }}>{children}</FreshnessContext>;
}

/** Tell when this page's main answer came; 0 before the first. True while it is too old to be called live. */
export function useFreshness(updatedAt: number): boolean {
  const { report } = use(FreshnessContext);
  const age = useAge(updatedAt);
  useEffect(() => {
    report(updatedAt);
    return () => report(0);
  }, [updatedAt, report]);
  return age !== null && age > STALE_MS;
}

/** When the page's answer came and its age in ms: null where this page has none that lives. */
export function usePageAge(): { updatedAt: number; age: number | null } {
  const { updatedAt } = use(FreshnessContext);
  return { updatedAt, age: useAge(updatedAt) };
}
