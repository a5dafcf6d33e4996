// Edits of a tenant's budgets: a new one, and ending one.

import { NativeSelect, TextInput } from "@mantine/core";
import { useState } from "react";
import { api, answered, everyItem, type Schemas } from "../api";
import type { FromTo, Standing } from "../components/edit-conflict";
import { EditDialog, terms } from "../components/edit-dialog";
import { money, nanoOf } from "../format";
import { BudgetLastMonth } from "./last-month";
import { day, ownerOf, periodOf, type Budget } from "./limit-words";

/** A budget as its row is headed. */
export function headOf(budget: Budget): string {
  const whose = ownerOf(budget.scope, budget.of) || "Whole tenant";
  const how = [budget.mode === "shadow" ? "shadow" : "", budget.override ? "overridden" : ""].filter(Boolean).join(", ");
  return `${whose.charAt(0).toUpperCase()}${whose.slice(1)}, ${periodOf(budget.period)}${how ? ` (${how})` : ""}`;
}

export const AMOUNT = "An amount like 250.00, with at most nine decimals.";

const PERIODS = ["month", "week", "day", "lifetime"] as const;
const SCOPES = ["tenant", "project", "user", "key", "model"] as const;

/** A new budget, or `began`, one that stands, with another amount. */
export function SetBudget({ tenant, began, onClose }: { tenant: string; began?: Budget; onClose: () => void }) {
  const [amount, setAmount] = useState(() => (began ? asTyped(began.limit) : ""));
  const [period, setPeriod] = useState<(typeof PERIODS)[number]>(began?.period ?? "month");
  const [scope, setScope] = useState<(typeof SCOPES)[number]>(began?.scope ?? "tenant");
  const [whose, setWhose] = useState(began && began.of !== "each" ? began.of : "");
  const [kind, setKind] = useState(began?.kind ?? "hard");
  const [tell, setTell] = useState((began?.thresholds ?? [80, 100]).join(", "));
  const nano = nanoOf(amount);
  const thresholds = percentsOf(tell);
  const given = { limit: { nano: nano ?? "0", currency: "USD" as const }, period, scope, of: scope === "tenant" ? "" : whose.trim(), soft: kind === "soft", thresholds: thresholds ?? [] };
  const reread = async (): Promise<Standing> => {
    const now = (await everyItem((query) => answered(api.GET("/api/tenants/{tenant}/budgets", { params: { path: { tenant }, query } })))).find((each) => same(each, began));
    if (!now) return { tag: undefined };
    const fill = () => {
      setAmount(asTyped(now.limit));
      setKind(now.kind);
      setTell(now.thresholds.join(", "));
    };
    return { tag: now.budget, take: { label: `Take ${money(now.limit)}`, fill } };
  };
  return (
    <EditDialog
      title={began ? `Budget: ${headOf(began)}` : `Add a budget of ${tenant}`}
      save={began ? "Save budget" : "Add budget"}
      onClose={onClose}
      tag={began?.budget}
      conflictOn="seen"
      of="this budget"
      fromTo={fromTo}
      reread={reread}
      typed={nano && thresholds ? JSON.stringify(given) : ""}
      send={(how) => answered(api.POST("/api/tenants/{tenant}/budgets", { params: { path: { tenant }, ...terms({ ...how, tag: undefined }) }, body: { ...given, ...(how.tag ? { seen: how.tag } : {}), reason: how.reason } }))}
      preview={(would) => <WhatItDoes would={would} before={began?.exhausted} />}
    >
      {(errorOf) => (
        <>
          <div className="edit-pair">
            <TextInput label="Budget, USD" inputMode="decimal" value={amount} onChange={(event) => setAmount(event.currentTarget.value)} error={amount && !nano ? AMOUNT : errorOf("limit")} autoComplete="off" data-autofocus />
            <NativeSelect label="Each" value={period} onChange={(event) => setPeriod(event.currentTarget.value as typeof period)} data={PERIODS.map((each) => ({ value: each, label: periodOf(each) }))} error={errorOf("period")} disabled={began !== undefined} />
          </div>
          <div className="edit-pair">
            <NativeSelect label="For" value={scope} onChange={(event) => setScope(event.currentTarget.value as typeof scope)} data={SCOPES.map((each) => ({ value: each, label: each === "tenant" ? "the whole tenant" : `a ${each}, or each` }))} error={errorOf("scope")} disabled={began !== undefined} />
            {scope !== "tenant" && <TextInput label={`Which ${scope}`} placeholder="each of them" value={whose} onChange={(event) => setWhose(event.currentTarget.value)} error={errorOf("of")} autoComplete="off" disabled={began !== undefined} />}
          </div>
          <div className="edit-pair">
            <NativeSelect label="When it is reached" value={kind} onChange={(event) => setKind(event.currentTarget.value)} data={[{ value: "hard", label: "Refuse with 402" }, { value: "soft", label: "Only alert" }]} />
            <TextInput label="Tell at, %" value={tell} onChange={(event) => setTell(event.currentTarget.value)} error={thresholds ? errorOf("thresholds") : "Per cents from 1 to 100, like 80, 100."} autoComplete="off" />
          </div>
        </>
      )}
    </EditDialog>
  );
}

function WhatItDoes({ would, before }: { would: Schemas["BudgetFor"]; before: string | null | undefined }) {
  return (
    <section className="edit-would" aria-label="What this does">
      <h3>What this does</h3>
      <NowLeft would={would} before={before} />
      <BudgetLastMonth last={would.last_month} each={periodOf(would.period)} />
    </section>
  );
}

function NowLeft({ would, before }: { would: Schemas["BudgetFor"]; before: string | null | undefined }) {
  if (!would.spent) return <p className="soft">{would.note ?? "Each of them has it for itself. What is spent already counts."}</p>;
  const left = BigInt(would.limit.nano) - BigInt(would.spent.nano);
  const after = `Spent so far ${money(would.spent)}: `;
  if (left <= 0n) return <p className="edit-warning"><b>{after}nothing would be left.</b> {would.kind === "hard" ? "New requests get 402 at once; answers under way are finished." : "It alerts at once and refuses nothing."}</p>;
  const gone = would.exhausted ? `, gone on about ${day(would.exhausted)}${before ? ` instead of ${day(before)}` : ""}` : "";
  return <p className="soft">{after}{money({ ...would.limit, nano: String(left) })} would be left{gone}.</p>;
}

/** From 6,000.00 to 6,500.00. */
const fromTo: FromTo = (before, after) => {
  const [was, now] = [before["limit"], after["limit"]].map((limit) => nanoOf(String(limit ?? "")));
  return was && now ? `from ${money({ nano: was, currency: "USD" })} to ${money({ nano: now, currency: "USD" })}` : "";
};

/** An amount as one types it: two digits, or as many as it has. */
export const asTyped = (amount: Budget["limit"]) => money(amount, 9).replaceAll(",", "").replace(/0{1,7}$/, "");

const same = (each: Budget, began: Budget | undefined) => began !== undefined && each.scope === began.scope && each.of === began.of && each.period === began.period && each.mode === began.mode && each.by_tenant === began.by_tenant;

/** Per cents as somebody typed them; null where one is none. */
function percentsOf(text: string): number[] | null {
  const found = text.split(/[ ,%]+/).filter(Boolean).map(Number);
  return found.every((each) => Number.isInteger(each) && each >= 1 && each <= 100) ? found : null;
}

export function EndBudget({ tenant, budget, onClose }: { tenant: string; budget: Budget; onClose: () => void }) {
  return (
    <EditDialog
      title={`End ${headOf(budget)}`}
      save="End budget"
      harmful
      onClose={onClose}
      typed=""
      send={(how) => answered(api.POST("/api/tenants/{tenant}/budgets/{budget}/end", { params: { path: { tenant, budget: budget.budget }, ...terms(how) }, body: { reason: how.reason } }))}
      preview={() => <p>{money(budget.limit)} USD is no limit any more, and nobody is told. What was spent stays in the books.</p>}
    />
  );
}
