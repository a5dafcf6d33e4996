// What pages say about a tenant's limits, money and times. Pure.

import type { Schemas } from "../api";
import { money, moment } from "../format";

export type Limit = Schemas["LimitInUse"];
export type PlanLimit = Schemas["PlanLimit"];
export type Budget = Schemas["BudgetInUse"];
export type Tenant = Schemas["ShownTenant"];

const DIMENSIONS: Record<string, readonly [string, string]> = {
  concurrency: ["Running", "at once"],
  requests_per_minute: ["Requests", "per minute"],
  input_tokens_per_minute: ["Input tokens", "per minute"],
  output_tokens_per_minute: ["Output tokens", "per minute"],
  tokens_per_minute: ["Tokens", "per minute"],
  answer_tokens: ["Longest answer", "tokens"],
};

/** A dimension as a name and its unit. */
export function dimensionOf(dimension: string): readonly [string, string] {
  return DIMENSIONS[dimension] ?? [dimension.replaceAll("_", " "), ""];
}

/** Whom a limit or budget is for, where it is not the whole tenant. */
export function ownerOf(scope: string, of: string): string {
  if (scope === "tenant") return "";
  return of && of !== "each" ? `${scope} ${of}` : `each ${scope}`;
}

/** The used share of a limit; null where nobody knows it. */
export function shareOf(limit: Limit): number | null {
  if (limit.used === null) return null;
  const most = limit.burst ?? limit.limit;
  return most > 0 ? limit.used / most : 1;
}

const TIMES: Record<string, string> = { day: "day", week: "week", month: "month", lifetime: "for good" };
export const periodOf = (period: string) => TIMES[period] ?? period;

/** Whom the words are for: how the tenant is called, and how times are shown. */
type Told = { it: string; its: string; at: (time: string) => string };
const TO_STAFF: Told = { it: "it", its: "its", at: moment };

const capital = (text: string) => text.charAt(0).toUpperCase() + text.slice(1);

type Verdict = { state: "well" | "warn" | "bad"; text: string };

/** Whether the tenant is within its limits, which is the nearest, and how its budget does. */
export function verdictOf(tenant: Tenant, limits: readonly Limit[], budgets: readonly Budget[], to: Told = TO_STAFF): Verdict {
  if (tenant.closed) return { state: "warn", text: `Closed since ${to.at(tenant.closed)}: ${to.its} keys are refused. What ${to.it} used stays in the books.` };
  const known = limits.filter((each) => each.mode === "enforce" && shareOf(each) !== null).toSorted((one, other) => (shareOf(other) ?? 0) - (shareOf(one) ?? 0));
  const spent = budgets.filter((each) => each.mode === "enforce" && (each.percent ?? 0) >= 100);
  const [nearest] = known;
  const budget = budgetWords(budgets, to.its);
  if (nearest && (shareOf(nearest) ?? 0) >= 1) return { state: "bad", text: `At a limit: ${named(nearest)} is used up, so further requests wait or are refused.${budget}` };
  if (spent.length) return { state: "bad", text: `Over budget: ${spent.map((each) => budgetName(each, to.its)).join(", ")}.` };
  if (!nearest) return { state: "well", text: limits.length ? `${capital(to.its)} limits are each user’s or key’s own.${budget}` : `No limit of ${to.its} own.${budget}` };
  return { state: "well", text: `Within all limits. The nearest is ${named(nearest)}, at ${Math.round((shareOf(nearest) ?? 0) * 100)} %.${budget}` };
}

function named(limit: Limit): string {
  const [name, unit] = dimensionOf(limit.dimension);
  const owner = ownerOf(limit.scope, limit.of);
  return `${`${name} ${unit}`.trim().toLowerCase()}${owner ? ` of ${owner}` : ""}`;
}

function budgetWords(budgets: readonly Budget[], its: string): string {
  const [fullest] = budgets.filter((each) => each.percent !== undefined).toSorted((one, other) => (other.percent ?? 0) - (one.percent ?? 0));
  if (!fullest) return "";
  const lasts = fullest.exhausted ? `; at this pace it lasts until ${day(fullest.exhausted)}` : "";
  return ` ${fullest.percent} % of ${budgetName(fullest, its)} is spent${lasts}.`;
}

export function budgetName(budget: Budget, its = "its"): string {
  const owner = ownerOf(budget.scope, budget.of);
  return `${owner ? `${owner}’s` : its} ${money(budget.override ?? budget.limit)} USD ${budget.period === "lifetime" ? "for good" : `a ${periodOf(budget.period)}`}`;
}

/** An RFC 3339 time as a date, or a dash. */
export const date = (time: string | null | undefined) => moment(time).slice(0, 10);

/** The date of a time that stands in the tenant's own zone. */
export const day = (time: string) => time.slice(0, 10);
