// A day's charges in words: how much it cost, more or less than when, and what alone did it. Pure.

import type { Schemas } from "../../../shared/api";
import { centsOf, centsText } from "../../../shared/cents";
import { FACET_WORDS, type ChargeFacet } from "./search";

export type Day = Schemas["ChargedDay"];
export type Group = Schemas["ChargeGroup"];
/** `bold`: it is the answer. */
export type Said = { text: string; bold?: boolean };

const formats = {
  weekday: new Intl.DateTimeFormat("en", { weekday: "long", timeZone: "UTC" }),
  month: new Intl.DateTimeFormat("en", { month: "long", year: "numeric", timeZone: "UTC" }),
};

function written(date: string, what: keyof typeof formats): string {
  return formats[what].format(new Date(`${date.length === 7 ? `${date}-01` : date}T00:00:00Z`));
}

export const TIMES = new Set<string>(["hour", "day"]);

export const weekday = (date: string) => written(date, "weekday");
export const monthName = (month: string) => written(month, "month");
export const isMonth = (day: Day) => day.time.name.length === 7;

/** The lead: what it cost, against when, and the group that changed it most. */
export function lead(day: Day): Said[] {
  const [cost, before] = [centsOf(day.total.cost), centsOf(day.total.before)];
  const what = isMonth(day) ? monthName(day.time.name) : "The day";
  const when = isMonth(day) ? monthName(day.before.name) : `the ${weekday(day.before.name)} before`;
  const until = day.over ? "" : isMonth(day) ? " by today" : " so far";
  const upTo = day.over ? "" : isMonth(day) ? ` by the same day` : ` by then`;
  if (cost === 0n && before === 0n) return [{ text: `Nothing was spent on ${what === "The day" ? "this day" : what}, nor on ${when}.` }];
  const change = cost - before;
  const than = change === 0n ? `, as much as ${when}${upTo}` : `, ${centsText(change < 0n ? -change : change)} ${change > 0n ? "more" : "less"} than ${when}${upTo}`;
  return [{ text: `${what} cost ` }, { text: centsText(cost), bold: true }, { text: `${until}${than}.` }, ...alone(day, change)];
}

/** "Key search reindex alone added 217.04.", where it went the way of the whole. */
function alone(day: Day, change: bigint): Said[] {
  const first = TIMES.has(day.by) ? undefined : day.groups[0]; // times are in their own order
  const added = first ? changeOf(first) : 0n;
  if (!first || added === 0n || added > 0n !== change > 0n) return [];
  const facet = FACET_WORDS[day.by as ChargeFacet].one;
  const verb = added > 0n ? "alone added" : "alone took off";
  const size = centsText(added < 0n ? -added : added);
  if (!first.name) return [{ text: ` What is of no ${facet} ${verb} ${size}.` }];
  return [{ text: ` ${facet.charAt(0).toUpperCase()}${facet.slice(1)} ` }, { text: first.name, bold: true }, { text: ` ${verb} ${size}.` }];
}

/** A change comes from the cents shown. */
export const changeOf = ({ sums }: Pick<Group, "sums">) => centsOf(sums.cost) - centsOf(sums.before);

/** "Thursday, 00:00 to 24:00 Europe/Berlin." */
export function during(day: Day, endOf: (iso: string) => string): string {
  const zone = day.time_zone;
  if (isMonth(day)) return `${monthName(day.time.name)} in ${zone}${day.over ? "" : ", without today"}`;
  const until = day.over || !day.time.to ? "24:00" : endOf(day.time.to);
  return `${weekday(day.time.name)}, 00:00 to ${until} ${zone}`;
}

/** The days or months beside it, for the links. */
export function beside(name: string, by: number): string {
  const at = new Date(`${name.length === 7 ? `${name}-15` : name}T00:00:00Z`);
  if (name.length === 7) at.setUTCMonth(at.getUTCMonth() + by);
  else at.setUTCDate(at.getUTCDate() + by);
  return at.toISOString().slice(0, name.length);
}
