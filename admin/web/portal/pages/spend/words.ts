// The Spend page's sentences and numbers. Pure.

import type { Schemas } from "../../../shared/api";
import { count, money, type Money } from "../../../shared/format";
import { dayAndTime, zonedDay } from "../../../shared/zoned";
import { monthName } from "./months";

export type Summary = Schemas["SpendSummary"];
export type SpendBudget = Summary["budgets"][number];
export type Lead = { before: string; bold: string; after: string };

const utc = (day: string) => new Date(`${day}T00:00:00Z`);
const days = new Intl.DateTimeFormat("en-GB", { timeZone: "UTC", day: "numeric", month: "long" });
const weekdays = new Intl.DateTimeFormat("en-GB", { timeZone: "UTC", weekday: "long", day: "numeric", month: "long" });

/** 2026-11 as "November 2026". */
export const monthAndYear = (month: string) => `${monthName(month)} ${month.slice(0, 4)}`;
export const dayAndMonth = (day: string) => days.format(utc(day));
export const weekdayOf = (day: string) => weekdays.format(utc(day)).replace(",", "");

/** "the 17th". */
export function ordinal(day: string): string {
  const number = Number(day.slice(8));
  const end = number % 100 > 10 && number % 100 < 14 ? "th" : ({ 1: "st", 2: "nd", 3: "rd" }[number % 10] ?? "th");
  return `the ${number}${end}`;
}

/** The month `by` months later. */
export function monthAfter(month: string, by: number): string {
  const at = utc(`${month}-01`);
  at.setUTCMonth(at.getUTCMonth() + by);
  return at.toISOString().slice(0, 7);
}

/** The last day of a month. */
export function lastDayOf(month: string): string {
  const at = utc(`${monthAfter(month, 1)}-01`);
  at.setUTCDate(0);
  return at.toISOString().slice(0, 10);
}

export const daysBetween = (one: string, other: string) => Math.round((utc(other).getTime() - utc(one).getTime()) / 86_400_000);

/** An amount that is only likely: to the hundred, a small one to two digits. */
export function about(amount: Money): string {
  const nano = BigInt(amount.nano);
  const whole = Number(nano / 1_000_000_000n);
  if (whole < 20) return money(amount);
  const step = whole >= 2000 ? 100 : whole >= 200 ? 10 : 1;
  return count(Math.round(whole / step) * step);
}

export const less = (one: Money, other: Money): Money => ({ nano: String(BigInt(one.nano) - BigInt(other.nano)), currency: one.currency });
const sizeOf = (amount: Money): Money => ({ ...amount, nano: amount.nano.replace("-", "") });
/** The cents shown of both, one less the other, so that what is read adds up. */
export function shownLess(one: Money, other: Money): Money {
  const cents = (amount: Money) => BigInt(money(amount).replaceAll(/[^0-9]/g, "")) * (amount.nano.startsWith("-") ? -1n : 1n);
  return { nano: String((cents(one) - cents(other)) * 10_000_000n), currency: one.currency };
}

/** "3,375.05 more". */
export function moreOrLess(one: Money, other: Money): string {
  const change = shownLess(one, other);
  if (change.nano === "0") return "as much";
  return `${money(sizeOf(change))} ${change.nano.startsWith("-") ? "less" : "more"}`;
}

/** The budget that the page is about: what the whole tenant may spend in a month. */
export const monthBudget = ({ budgets }: Summary) => budgets.find((each) => each.scope === "tenant" && each.period === "month" && each.mode === "enforce");
export const limitOf = (budget: SpendBudget): Money => (budget.override ?? budget.limit) as Money;
export const isSpent = (budget: SpendBudget) => (budget.percent ?? 0) >= 100;
export const usedUp = ({ budgets }: Summary) => budgets.filter((each) => isSpent(each) && each.kind === "hard" && each.mode === "enforce");
/** Whether the whole tenant's budget refuses requests now: what is expected comes only if it is raised. */
export const isHeldBack = (summary: Summary) => usedUp(summary).some((each) => each.scope === "tenant");
export const isNew = (summary: Summary) => summary.booked === null;

/** The sentence that answers first: will the money last? */
export function leadOf(summary: Summary): Lead {
  const name = monthName(summary.month);
  if (summary.state !== "open") return overLead(summary, name);
  const budget = monthBudget(summary);
  if (budget) return budgetLead(summary, budget, name);
  const lasts = summary.wallet?.lasts;
  if (lasts?.day) return { before: "At this pace the wallet lasts until about ", bold: weekdayOf(lasts.day), after: "." };
  if (summary.forecast) return { before: `At this pace ${name} costs `, bold: `about ${about(summary.forecast.cost)}`, after: "." };
  return { before: `${name} cost `, bold: money(summary.cost), after: " so far. A forecast needs three days of use." };
}

function budgetLead(summary: Summary, budget: SpendBudget, name: string): Lead {
  const last = lastDayOf(summary.month);
  if (isSpent(budget)) {
    const then = budget.kind === "hard" ? ` Requests get 402 until ${dayAndMonth(daysAfter(last, 1))}.` : " It only alerts.";
    return { before: `The ${name} budget of ${money(limitOf(budget))} is `, bold: "used up", after: `.${then}` };
  }
  const day = budget.lasts?.day;
  if (day) return { before: `At this pace the ${name} budget lasts until `, bold: weekdayOf(day), after: day === last ? ", the month’s last day." : `, ${dayCount(daysBetween(day, last))} short of the month.` };
  if (budget.lasts) return { before: `At this pace the ${name} budget lasts `, bold: "the whole month", after: "." };
  return { before: `The ${name} budget has `, bold: money(budget.left as Money), after: " left. A forecast needs three days of use." };
}

function overLead(summary: Summary, name: string): Lead {
  const lead = { before: `${name} cost `, bold: money(summary.cost) };
  if (!summary.compared) return { ...lead, after: "." };
  return { ...lead, after: `, ${moreOrLess(summary.compared.cost, summary.compared.before)} ${than(summary)} ${monthName(monthAfter(summary.month, -1))}.` };
}

const than = ({ compared }: Summary) => (compared && shownLess(compared.cost, compared.before).nano === "0" ? "as" : "than");
export const dayCount = (days: number) => (days === 1 ? "1 day" : `${days} days`);

export function daysAfter(day: string, days: number): string {
  const at = utc(day);
  at.setUTCDate(at.getUTCDate() + days);
  return at.toISOString().slice(0, 10);
}

/** What stands below the month's cost. */
export function spentNote(summary: Summary): string {
  const { compared } = summary;
  if (!compared) return summary.state === "open" ? "the first day is not over yet" : "";
  if (compared.before.nano === "0") return `${money(compared.cost)} by ${ordinal(compared.by)}`;
  if (summary.state !== "open") return `${moreOrLess(compared.cost, compared.before)} ${than(summary)} ${monthName(compared.before_by.slice(0, 7))}`;
  return `${money(compared.cost)} by ${ordinal(compared.by)}: ${moreOrLess(compared.cost, compared.before)} ${than(summary)} by ${dayAndMonth(compared.before_by)}`;
}

/** What stands below the chart's title. */
export function crossingWords(summary: Summary): string {
  const budget = monthBudget(summary);
  if (summary.state !== "open") return `What ${monthName(summary.month)} cost, day by day.`;
  if (!summary.forecast) return "The expected path is drawn after three days of use.";
  if (!budget?.lasts) return `Expected are ${about(summary.forecast.cost)} at the end of ${monthName(summary.month)}, 4 of 5 times between ${about(summary.forecast.low)} and ${about(summary.forecast.high)}.`;
  const { day, early, late } = budget.lasts;
  if (isSpent(budget)) return isHeldBack(summary) ? "The budget is used up: what is expected comes only if it is raised." : "The budget is used up.";
  if (day) return `The expected path crosses the budget on ${day}, and ${late ? `4 of 5 times between ${early} and ${late}` : `9 of 10 times not before ${early}`}.`;
  return `The expected path stays below the budget; ${early ? `9 of 10 times it is not crossed before ${early}` : "9 of 10 times it is not crossed at all"}.`;
}

/** A moment in a zone: the time of day, of another day with its date. */
export function localMoment(moment: string, zone: string, now: number): string {
  const [date, time] = dayAndTime(Date.parse(moment), zone);
  return zonedDay(new Date(now), zone) === date ? time : `${date} ${time}`;
}
