// The time zone in which a page shows its times: UTC, or in the portal that of the tenant.

import { createContext, useContext, type ReactNode } from "react";
import { zonedMinute } from "./zoned";

/** `told`: what stands beside a time, empty where the page says its zone once. */
export type Zone = { name: string; told: string };

const ZoneContext = createContext<Zone>({ name: "UTC", told: "UTC" });

/** Pages that say the zone once, in their head. `zone` undefined: not known, so that times say theirs. */
export function ZoneProvider({ zone, children }: { zone: string | undefined; children: ReactNode }) {
  return <ZoneContext.Provider value={zone ? { name: zone, told: "" } : { name: "UTC", told: "UTC" }}>{children}</ZoneContext.Provider>;
}

export const useZone = () => useContext(ZoneContext);

/** Times as the page shows them in sentences: to the minute. */
export function useTimes(): (time: string | null | undefined) => string {
  const { name, told } = useZone();
  return (time) => `${zonedMinute(time, name)}${told && time ? ` ${told}` : ""}`;
}
