// Times as clocks of a zone show them. Pure.

import { NOBODY_KNOWS } from "./format";

const formats = new Map<string, Intl.DateTimeFormat>();

function formatOf(zone: string): Intl.DateTimeFormat {
  const known = formats.get(zone) ?? new Intl.DateTimeFormat("sv-SE", { timeZone: zone, dateStyle: "short", timeStyle: "medium" });
  formats.set(zone, known);
  return known;
}

/** A time as `2026-11-19 09:00:00` there; a dash where there is none. */
export function zonedSecond(time: Date | string | number | null | undefined, zone: string): string {
  return time ? formatOf(zone).format(new Date(time)) : NOBODY_KNOWS;
}

/** As `2026-11-19 09:00`. */
export const zonedMinute = (time: Date | string | number | null | undefined, zone: string) => zonedSecond(time, zone).slice(0, 16);

/** Its date there. */
export const zonedDay = (time: Date | string | number | null | undefined, zone: string) => zonedSecond(time, zone).slice(0, 10);

/** Its time of day there: `09:00:00`. */
export const zonedClock = (time: Date | string | number | null | undefined, zone: string) => (time ? zonedSecond(time, zone).slice(11) : NOBODY_KNOWS);

/** Date and time of day of an instant. */
export const dayAndTime = (ms: number, zone: string): [string, string] => [zonedDay(new Date(ms), zone), zonedClock(new Date(ms), zone)];

/** When a day (`2026-12-01`) begins there: at its first instant, where clocks skip midnight or show it twice. */
export function zonedStart(day: string, zone: string): Date {
  const wanted = Date.parse(`${day}T00:00:00Z`);
  const begins = [-DAY_MS, DAY_MS].map((beside) => wanted - offsetAt(wanted + beside, zone)).filter((at) => zonedDay(new Date(at), zone) >= day);
  return new Date(Math.min(...begins));
}

const DAY_MS = 86_400_000;

/** How far the zone's clocks are ahead of UTC at an instant. */
const offsetAt = (ms: number, zone: string) => Date.parse(`${zonedSecond(new Date(ms), zone).replace(" ", "T")}Z`) - ms;

/** The first day of the month behind that of a time. */
export function nextMonth(now: Date, zone: string): string {
  const [year = 0, month = 0] = zonedDay(now, zone).split("-").map(Number);
  return new Date(Date.UTC(year, month, 1)).toISOString().slice(0, 10);
}
