// A tenant's budgets, and their edits.

import { TextInput } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { useState } from "react";
import { EditDialog, terms } from "../../../shared/components/edit-dialog";
import { Facts } from "../../../shared/components/facts";
import { Meter } from "../../../shared/components/meter";
import { Section } from "../../../shared/components/section";
import { api, answered, answeredWithTag } from "../../../shared/api";
import { count, money, nanoOf } from "../../../shared/format";
import { useSession } from "../../../shared/session";
import { AMOUNT, asTyped, EndBudget, headOf, SetBudget } from "../../../shared/limits/budget-edits";
import type { Budget } from "../../../shared/limits/limit-words";

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
      {opened === "new" && <SetBudget tenant={tenant} onClose={() => setOpened(null)} />}
      {opened && opened !== "new" && <OverrideBudget tenant={tenant} budget={opened} onClose={() => setOpened(null)} />}
    </Section>
  );
}

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
