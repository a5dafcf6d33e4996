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

/** When a day (`2026-12-01`) begins there. */
export function zonedStart(day: string, zone: string): Date {
  const wanted = Date.parse(`${day}T00:00:00Z`);
  let at = wanted;
  for (let tries = 0; tries < 2; tries += 1) at += wanted - Date.parse(`${zonedMinute(new Date(at), zone).replace(" ", "T")}:00Z`);
  return new Date(at);
}

/** The first day of the month behind that of a time. */
export function nextMonth(now: Date, zone: string): string {
  const [year = 0, month = 0] = zonedDay(now, zone).split("-").map(Number);
  return new Date(Date.UTC(year, month, 1)).toISOString().slice(0, 10);
}
