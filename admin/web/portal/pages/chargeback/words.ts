// What the report's rows, columns and months are called. Pure.

import type { Schemas } from "../../../shared/api";
import { count } from "../../../shared/format";
import { FACTS, TAG, type Fact } from "./search";

export type Report = Schemas["ChargebackReport"];
export type Head = Schemas["ChargebackHead"];

const month = new Intl.DateTimeFormat("en", { month: "long", year: "numeric", timeZone: "UTC" });

/** October 2026. */
export function monthName(text: string): string {
  return month.format(new Date(`${text}-15T00:00:00Z`));
}

export function factName(fact: Fact): string {
  if (fact.startsWith(TAG)) return `Tag ${fact.slice(TAG.length)}`;
  return FACTS.find(([value]) => value === fact)?.[1] ?? fact;
}

/** 2026-10, closed. */
export function monthChoice({ month: text, closed }: Schemas["ChargebackMonth"], now: string): string {
  return `${text}, ${closed ? "closed" : text === now ? "so far" : "open"}`;
}

/** A row's or column's name; null: it has its own, which others chose. */
export function nameOf(head: Head, fact: Fact): string | null {
  const tag = fact.startsWith(TAG);
  const one = tag ? "value" : factName(fact).toLowerCase();
  if (head.kind === "other") return `Other ${count(head.more)} ${head.more === 1 ? one : `${one}s`}`;
  if (head.kind === "tiers") return "Tiers, at the close";
  if (tag) return head.kind === "nobody" ? "Not tagged" : null;
  return head.kind === "nobody" ? `Of no ${factName(fact).toLowerCase()}` : null;
}
