// Times in a tenant's own zone. Pure.

import { NOBODY_KNOWS } from "./format";

const formats = new Map<string, Intl.DateTimeFormat>();

function formatOf(zone: string): Intl.DateTimeFormat {
  const known = formats.get(zone) ?? new Intl.DateTimeFormat("sv-SE", { timeZone: zone, dateStyle: "short", timeStyle: "short" });
  formats.set(zone, known);
  return known;
}

/** A time as `2026-11-19 09:00` there; a dash where there is none. */
export function zonedMinute(time: Date | string | null | undefined, zone: string): string {
  return time ? formatOf(zone).format(new Date(time)) : NOBODY_KNOWS;
}

/** Its date there. */
export const zonedDay = (time: Date | string | null | undefined, zone: string) => zonedMinute(time, zone).slice(0, 10);
