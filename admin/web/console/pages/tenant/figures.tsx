// What a tenant runs, how its last hour went and what its month costs: asked for, and as the strip of its page.

import { Link } from "@tanstack/react-router";
import type { ReactNode } from "react";
import type { StripItem } from "../../../shared/components/strip";
import { api, answered, type Schemas } from "../../../shared/api";
import { count, decimal, money, NOBODY_KNOWS, percent } from "../../../shared/format";
import { useLive } from "../../../shared/live";

export type TenantNow = Schemas["TenantNow"];

export function useNow(tenant: string, allowed: boolean) {
  const ask = async () => (allowed ? answered(api.GET("/api/tenants/{tenant}/now", { params: { path: { tenant } } })) : null);
  return useLive<TenantNow | null>(["tenant now", tenant], ask, 5000).data ?? undefined;
}

type Seen = { tenant: string; now: TenantNow | undefined; requests: boolean };

/** What is known; `requests`: they may be looked at. */
export function stripOf({ tenant, now, requests }: Seen): StripItem[] {
  const linked = (search: { state: "live" } | { state: "ended"; outcome: "error" }, note: string): ReactNode => (requests && note ? <Link to="/requests" search={{ tenant, ...search }}>{note}</Link> : note);
  const share = now && now.ended ? now.errors / now.ended : null;
  const wait = now?.first_token_p95_ms ?? null;
  return [
    { label: "Running", value: count(now?.running), note: now?.open ? linked({ state: "live" }, runningIn(now)) : runningIn(now) },
    { label: "First token, p95", value: wait === null ? NOBODY_KNOWS : decimal(wait / 1000, 2), unit: wait === null ? "" : "s", note: now ? ofEnded(now) : "" },
    { label: "Errors", value: percent(share), unit: share === null ? "" : "%", note: now?.errors ? linked({ state: "ended", outcome: "error" }, `${count(now.errors)} ${ofEnded(now)}`) : now ? `${now.ended ? "0 " : ""}${ofEnded(now)}` : "", bad: (share ?? 0) >= 0.05 && (now?.errors ?? 0) > 2, series: now?.hours.map((hour) => (hour.ended ? hour.errors / hour.ended : null)) ?? [], over: "last day" },
    { label: `Cost in ${now ? monthName(now.month) : "this month"}`, value: money(now?.month_cost), unit: now ? "USD" : "", note: now ? `${money(now.day_cost)} today` : "", series: now?.hours.map((hour) => Number(hour.cost.nano)) ?? [], over: "last day" },
  ];
}

function runningIn(now: TenantNow | undefined): string {
  if (!now || now.running === null) return now ? "nobody knows" : "";
  const waiting = Math.max(0, (now.open ?? 0) - now.running);
  const pools = now.pools ?? [];
  const [first, ...others] = pools.map((each) => `${pools.length > 1 ? `${count(each.running)} ` : ""}in ${each.pool}`);
  const where = others.length > 1 ? `${first}, the others in ${count(others.length)} pools` : [first, ...others].filter(Boolean).join(", ");
  return [where, waiting ? `${count(waiting)} wait` : ""].filter(Boolean).join(" · ") || "nothing waits";
}

function ofEnded(now: TenantNow): string {
  if (!now.ended) return "nothing ended in the last hour";
  return now.more ? `of the last ${count(now.ended)}, all in the last hour` : `of ${count(now.ended)} in the last hour`;
}

const MONTHS = new Intl.DateTimeFormat("en", { month: "long", timeZone: "UTC" });

/** `2026-11` as November. */
export const monthName = (month: string) => MONTHS.format(new Date(`${month}-15T00:00:00Z`));
