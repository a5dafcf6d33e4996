// What a month's days are called and how they are written. Pure.

import type { Schemas } from "../../../shared/api";
import type { Tone } from "../../../shared/components/bar-fills";
import { TONES } from "../../../shared/components/bar-fills";
import { count } from "../../../shared/format";

export type Series = Schemas["SpendSeries"];
export type Amount = Schemas["SeriesAmount"];
export type By = Series["by"];
export type Measure = "cost" | "tokens";

/** Titles of what it is told apart by: of one, of several, and of what is of none. */
export const GROUPS: Record<By, { title: string; several: string; nobody: string }> = {
  model: { title: "model", several: "models", nobody: "Not of a model" },
  project: { title: "project", several: "projects", nobody: "Not of a project" },
  cost_center: { title: "cost center", several: "cost centers", nobody: "Not of a cost center" },
  user: { title: "user", several: "users", nobody: "Not of a user or key" },
  key: { title: "key", several: "keys", nobody: "Not of a user or key" },
  pool: { title: "pool", several: "pools", nobody: "Not of a pool" },
};

/** A row of the legend and a layer of the bars. `of`: its id where its part of a day can be explained. */
export type Line = { id: string; of?: string; name: string; tone: Tone; month: Amount; days: readonly Amount[] };

/** The groups by their place, the others, and what is nobody's, from the bottom up. */
export function linesOf(series: Series): Line[] {
  const words = GROUPS[series.by];
  const named = series.groups.map((group, place): Line => ({ id: group.id, of: group.id, name: group.name, tone: TONES[place] ?? "other", month: group.month, days: group.days }));
  const others = series.others ? [{ id: "others", name: `Other ${count(series.others.count)} ${series.others.count === 1 ? words.title : words.several}`, tone: "other" as const, month: series.others.month, days: series.others.days }] : [];
  const nobody = series.nobody ? [{ id: "nobody", of: "", name: words.nobody, tone: "nobody" as const, month: series.nobody.month, days: series.nobody.days }] : [];
  return [...named, ...others, ...nobody];
}

/** Where a day, or a group's part of it, is explained. */
export const explained = (series: Series, day: number, of?: string) => ({ day: series.days[day]?.date ?? "", by: series.by, ...(of === undefined ? {} : { of }) });

const NONE: Amount = { cost: { nano: "0", currency: "USD" }, tokens: 0 };
export const amountsOf = (line: Line, day: number): Amount => line.days[day] ?? NONE;

/** A number to draw: cost in units. It is never written. */
export const valueOf = (amount: Amount, measure: Measure): number => (measure === "cost" ? Number(BigInt(amount.cost.nano) / 1000n) / 1_000_000 : amount.tokens);

const UNIT = 1_000_000_000n;

/** True of a month that cost less than one unit: in cents nothing of it would be seen. */
export const isFine = (series: Series) => isFineSum(series.total.cost);
export const isFineSum = (total: Amount["cost"]) => BigInt(total.nano.replace("-", "")) < UNIT;

/** A value of the axis: units, or tokens in short. */
export function axisText(value: number, measure: Measure): string {
  if (measure === "tokens") return short(value);
  return (Math.abs(value) < 10 && value % 1 ? fine : whole).format(value).replace("-", "\u2212");
}

const [whole, tenths, fine] = [0, 1, 6].map((digits) => new Intl.NumberFormat("en", { maximumFractionDigits: digits })) as [Intl.NumberFormat, Intl.NumberFormat, Intl.NumberFormat];

const SIZES = [[1e12, "T"], [1e9, "B"], [1e6, "M"], [1e3, "k"]] as const;

/** A large count in short: 18.5 B. */
export function short(value: number): string {
  const [size, letter] = SIZES.find(([each]) => Math.abs(value) >= each) ?? [1, ""];
  const shown = value / size;
  const text = (Math.abs(shown) < 100 && letter ? tenths : whole).format(shown).replace("-", "\u2212");
  return letter ? `${text} ${letter}` : text;
}

/** What it comes to in a sentence. */
export function leadOf(series: Series, measure: Measure): string {
  const open = series.days.some((day) => day.open) ? "Today is still open and drawn paler." : "";
  const [first] = series.groups;
  const [part, whole] = [first ? valueOf(first.month, measure) : 0, valueOf(series.total, measure)];
  if (!first || whole <= 0 || part < 0) return open;
  return `${first.name} is ${Math.round((part / whole) * 100)} % of the month. ${open}`;
}
