// A tenant's budgets, and their edits.

import { NativeSelect, TextInput } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { useState } from "react";
import { EditDialog, terms } from "../../../shared/components/edit-dialog";
import { Facts } from "../../../shared/components/facts";
import { Meter } from "../../../shared/components/meter";
import { Section } from "../../../shared/components/section";
import { api, answered, answeredWithTag } from "../../../shared/api";
import { count, money, nanoOf } from "../../../shared/format";
import { useSession } from "../../../shared/session";
import { ownerOf, periodOf, type Budget } from "../../../shared/limit-words";

export function Budgets({ tenant, budgets }: { tenant: string; budgets: readonly Budget[] | undefined }) {
  const { may } = useSession();
  const [opened, setOpened] = useState<Budget | "new" | null>(null);
  const [ending, setEnding] = useState<Budget | null>(null);
  if (!may("budgets.list")) return null;
  const end = may("budgets.set") && <button type="button" className="link" onClick={() => setOpened("new")}>Add budget…</button>;
  return (
    <Section title="Budgets" note="USD" end={end}>
      {budgets?.length === 0 && <p className="soft">None: it may spend what its wallet or its invoice bears.</p>}
      {budgets && budgets.length > 0 && (
        <ul className="budgets">
          {budgets.map((budget) => (
            <li key={budget.budget} className="budget">
              <p>
                <span>{headOf(budget)}</span>
                <span className="tabular">{money(budget.spent)} / {money(budget.override ?? budget.limit)}</span>
              </p>
              <Meter share={(budget.percent ?? 0) / 100} label={`${headOf(budget)} spent`} />
              <span className="row-links">
                {may("budgets.override") && <button type="button" className="link" aria-label={`Override ${headOf(budget)}`} onClick={() => setOpened(budget)}>Override…</button>}
                {may("budgets.end") && <button type="button" className="link" aria-label={`End ${headOf(budget)}`} onClick={() => setEnding(budget)}>End…</button>}
              </span>
            </li>
          ))}
        </ul>
      )}
      {ending && <EndBudget tenant={tenant} budget={ending} onClose={() => setEnding(null)} />}
      {opened === "new" && <AddBudget tenant={tenant} onClose={() => setOpened(null)} />}
      {opened && opened !== "new" && <OverrideBudget tenant={tenant} budget={opened} onClose={() => setOpened(null)} />}
    </Section>
  );
}

function headOf(budget: Budget): string {
  const whose = ownerOf(budget.scope, budget.of) || "Whole tenant";
  const how = [budget.mode === "shadow" ? "shadow" : "", budget.override ? "overridden" : ""].filter(Boolean).join(", ");
  return `${whose.charAt(0).toUpperCase()}${whose.slice(1)}, ${periodOf(budget.period)}${how ? ` (${how})` : ""}`;
}

const PERIODS = ["month", "week", "day", "lifetime"] as const;
const SCOPES = ["tenant", "project", "user", "key", "model"] as const;
const AMOUNT = "An amount like 250.00, with at most nine decimals.";

function AddBudget({ tenant, onClose }: { tenant: string; onClose: () => void }) {
  const [amount, setAmount] = useState("");
  const [period, setPeriod] = useState<(typeof PERIODS)[number]>("month");
  const [scope, setScope] = useState<(typeof SCOPES)[number]>("tenant");
  const nano = nanoOf(amount);
  return (
    <EditDialog
      title={`Add a budget of ${tenant}`}
      save="Add budget"
      onClose={onClose}
      typed={nano ? JSON.stringify({ limit: nano, period, scope }) : ""}
      send={(how) => answered(api.POST("/api/tenants/{tenant}/budgets", { params: { path: { tenant }, ...terms(how) }, body: { limit: { nano: nano ?? "0", currency: "USD" }, period, scope, reason: how.reason } }))}
      preview={(would) => <p className="soft">{would.note ?? `It alerts at ${would.thresholds.join(", ")} %, and refuses what would go over it. What is spent already counts.`}</p>}
    >
      {(errorOf) => (
        <>
          <TextInput label="Limit, USD" inputMode="decimal" value={amount} onChange={(event) => setAmount(event.currentTarget.value)} error={amount && !nano ? AMOUNT : errorOf("limit")} autoComplete="off" data-autofocus />
          <div className="edit-pair">
            <NativeSelect label="Each" value={period} onChange={(event) => setPeriod(event.currentTarget.value as typeof period)} data={PERIODS.map((each) => ({ value: each, label: periodOf(each) }))} error={errorOf("period")} />
            <NativeSelect label="For" value={scope} onChange={(event) => setScope(event.currentTarget.value as typeof scope)} data={SCOPES.map((each) => ({ value: each, label: each === "tenant" ? "the whole tenant" : `each ${each}` }))} error={errorOf("scope")} />
          </div>
        </>
      )}
    </EditDialog>
  );
}

/** An amount as one types it: two digits, or as many as it has. */
const asTyped = (amount: Budget["limit"]) => money(amount, 9).replaceAll(",", "").replace(/0{1,7}$/, "");

function OverrideBudget({ tenant, budget, onClose }: { tenant: string; budget: Budget; onClose: () => void }) {
  const [amount, setAmount] = useState(() => asTyped(budget.override ?? budget.limit));
  const [until, setUntil] = useState("");
  const path = { tenant, budget: budget.budget };
  const read = () => answeredWithTag(api.GET("/api/tenants/{tenant}/budgets/{budget}", { params: { path } }));
  const { data: known } = useQuery({ queryKey: ["budget as it was", budget.budget], queryFn: read, staleTime: Infinity, gcTime: 0 });
  const nano = nanoOf(amount);
  if (!known) return null;
  return (
    <EditDialog
      title={`Override ${headOf(budget)}`}
      save="Override"
      onClose={onClose}
      tag={known.tag}
      reread={async () => (await read()).tag}
      typed={nano && until.trim() ? JSON.stringify({ limit: nano, until }) : ""}
      send={(how) => answered(api.PUT("/api/tenants/{tenant}/budgets/{budget}/override", { params: { path, ...terms(how) }, body: { limit: { nano: nano ?? "0", currency: "USD" }, until: until.trim(), reason: how.reason } }))}
      preview={(would) => <Facts boxed label="What changes" facts={[["Limit meanwhile", `${money(budget.limit)} → ${money(would.override)}`], ["Until", would.override_until ?? "–"], ["Spent now", `${money(budget.spent)} (${count(budget.percent)} %)`]]} />}
    >
      {(errorOf) => (
        <div className="edit-pair">
          <TextInput label="Limit meanwhile, USD" inputMode="decimal" value={amount} onChange={(event) => setAmount(event.currentTarget.value)} error={nano ? errorOf("limit") : AMOUNT} autoComplete="off" data-autofocus />
          <TextInput label="Until" description="" placeholder="2026-12-01" value={until} onChange={(event) => setUntil(event.currentTarget.value)} error={errorOf("until")} autoComplete="off" />
        </div>
      )}
    </EditDialog>
  );
}

function EndBudget({ tenant, budget, onClose }: { tenant: string; budget: Budget; onClose: () => void }) {
  return (
    <EditDialog
      title={`End ${headOf(budget)}`}
      save="End budget"
      harmful
      onClose={onClose}
      typed=""
      send={(how) => answered(api.POST("/api/tenants/{tenant}/budgets/{budget}/end", { params: { path: { tenant, budget: budget.budget }, ...terms(how) }, body: { reason: how.reason } }))}
      preview={() => <p>Its {money(budget.limit)} USD limit nothing any more, and alert nobody. What was spent stays in the books.</p>}
    />
  );
}
