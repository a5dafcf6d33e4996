// Budgets and limits of the tenant with what is used of them now: Parley's, and stricter ones of its own.

import { Button } from "@mantine/core";
import { getRouteApi } from "@tanstack/react-router";
import { useState } from "react";
import { DataTable, type Column } from "../../../shared/components/data-table";
import { Meter } from "../../../shared/components/meter";
import { Section } from "../../../shared/components/section";
import { Unanswered } from "../../../shared/components/unanswered";
import { api, answered, everyItem } from "../../../shared/api";
import { count, money } from "../../../shared/format";
import { EndBudget, headOf, SetBudget } from "../../../shared/limits/budget-edits";
import { EditLimit, EndLimit, SetLimit } from "../../../shared/limits/limit-edits";
import { dimensionOf, ownerOf, shareOf, verdictOf, type Budget, type Limit } from "../../../shared/limits/limit-words";
import { useLive } from "../../../shared/live";
import { useSession } from "../../../shared/session";
import { OldFigures } from "../../old-figures";
import { useTimes } from "../../../shared/zone";
import { ReadOnly } from "../../read-only";
import { useTenant } from "../../tenant";
import { Alerts } from "./alerts";
import { useOwnerNames } from "./owner-names";

type Opened = { what: "new-budget" } | { what: "new-limit" } | { what: "budget" | "end-budget"; budget: Budget } | { what: "limit" | "end-limit"; limit: Limit };

const route = getRouteApi("/limits");

export function LimitsPage() {
  const { id, name, facts } = useTenant();
  const { may } = useSession();
  const [opened, setOpened] = useState<Opened | null>(null);
  const path = { tenant: id };
  const limitsAsked = useLive(["limits", id], () => everyItem((query) => answered(api.GET("/api/tenants/{tenant}/limits", { params: { path, query } }))), 5000);
  const budgetsAsked = useLive(["budgets", id], async () => (may("budgets.list") ? await everyItem((query) => answered(api.GET("/api/tenants/{tenant}/budgets", { params: { path, query } }))) : []), 5000);
  const [limits, budgets] = [limitsAsked.data, budgetsAsked.data];
  const named = useOwnerNames(id);
  const at = useTimes();
  const lead = facts && limits && budgets ? verdictOf(facts, named(limits) ?? [], named(budgets) ?? [], { it: "you", its: "your", at }).text : "";
  const asked = route.useSearch().budget;
  const navigate = route.useNavigate();
  const inAddress = asked && may("budgets.set") ? named(budgets)?.find((each) => each.by_tenant && each.budget === asked) : undefined;
  const close = () => {
    setOpened(null);
    if (asked) void navigate({ search: {}, replace: true });
  };
  return (
    <>
      <div className="page-head">
        <h1 className="page-title">Limits and budgets</h1>
        <span className="end">
          {may("limits.set") && <Button variant="default" onClick={() => setOpened({ what: "new-limit" })}>New limit…</Button>}
          {may("budgets.set") && <Button onClick={() => setOpened({ what: "new-budget" })}>New budget…</Button>}
        </span>
      </div>
      <p className="meta">Amounts in USD.{facts ? ` Times and months are those of ${facts.time_zone}.` : ""}</p>
      {lead ? <p className="lead">{lead}</p> : <div className="lead"><Unanswered asked={limits ? budgetsAsked : limitsAsked} /></div>}
      <OldFigures />
      <ReadOnly operation="budgets.set" what="set budgets or limits" />
      {may("budgets.list") && (
        <Section title="Budgets" note="At a hard budget new requests get 402; answers under way are finished.">
          {!budgets ? <Unanswered asked={budgetsAsked} /> : budgets.length ? <DataTable label="Budgets" columns={budgetColumns(may("budgets.end"), setOpened)} rows={named(budgets) ?? []} keyOf={(each) => each.budget} /> : <p className="soft">No budget: only the wallet or your plan holds spending back.</p>}
        </Section>
      )}
      <Section title="Limits" note="Yours may be lower than Parley’s, never higher. Use is of now.">
        {!limits ? <Unanswered asked={limitsAsked} /> : limits.length ? <DataTable label="Limits" columns={limitColumns(may("limits.end"), setOpened)} rows={named(limits) ?? []} keyOf={(each) => each.limit_id} /> : <p className="soft">No limit of your own. Those of your plan hold.</p>}
      </Section>
      <Alerts tenant={id} named={named} />
      {opened?.what === "new-budget" && <SetBudget tenant={name} onClose={close} />}
      {opened?.what === "new-limit" && <SetLimit tenant={name} onClose={close} />}
      {opened?.what === "budget" && <SetBudget tenant={name} began={opened.budget} onClose={close} />}
      {!opened && inAddress && <SetBudget key={inAddress.budget} tenant={name} began={inAddress} onClose={close} />}
      {opened?.what === "end-budget" && <EndBudget tenant={name} budget={opened.budget} onClose={close} />}
      {opened?.what === "limit" && <EditLimit tenant={name} limit={opened.limit} onClose={close} />}
      {opened?.what === "end-limit" && <EndLimit tenant={name} limit={opened.limit} onClose={close} />}
    </>
  );
}

const used = (share: number, label: string) => <span className="used"><Meter share={share} label={label} /><span>{Math.round(share * 100)}</span></span>;

function budgetColumns(edits: boolean, open: (opened: Opened) => void): Column<Budget>[] {
  return [
    { title: "Of", cell: (each) => <b><bdi>{headOf(each)}</bdi></b> },
    { title: "Spent", number: true, cell: (each) => money(each.spent) },
    { title: "Budget", number: true, phone: "end", cell: (each) => money(each.override ?? each.limit) },
    { title: "Used, %", cell: (each) => (each.percent === undefined ? "" : used(each.percent / 100, `${headOf(each)} spent`)) },
    { title: "Gone about", right: true, cell: (each) => each.exhausted?.slice(0, 10) ?? "–" },
    { title: "Then", cell: (each) => (each.mode === "shadow" ? "nothing: shadow" : each.kind === "hard" ? "refuse with 402" : "alert only") },
    { title: "Set by", cell: (each) => (each.by_tenant ? "you" : "Parley") },
    ...(edits ? [{ title: "", number: true, cell: (each: Budget) => each.by_tenant && <RowLinks of={headOf(each)} edit={() => open({ what: "budget", budget: each })} end={() => open({ what: "end-budget", budget: each })} /> }] : []),
  ];
}

function limitColumns(edits: boolean, open: (opened: Opened) => void): Column<Limit>[] {
  const named = (each: Limit) => dimensionOf(each.dimension).join(" ");
  return [
    { title: "Limit", cell: (each) => <><b>{dimensionOf(each.dimension)[0]}</b> <span className="soft">{dimensionOf(each.dimension)[1]}</span></> },
    { title: "Of", cell: (each) => <bdi>{[ownerOf(each.scope, each.of) || "whole tenant", each.models === "*" ? "" : each.models].filter(Boolean).join(", ")}</bdi> },
    { title: "Use", number: true, cell: (each) => count(each.used) },
    { title: "Limit at", number: true, phone: "end", cell: (each) => count(each.burst ?? each.limit) },
    { title: "Used, %", cell: (each) => (shareOf(each) === null ? "" : used(shareOf(each) ?? 0, `${named(each)} used`)) },
    { title: "Set by", cell: (each) => `${each.by_tenant ? "you" : "Parley"}${each.mode === "shadow" ? ", shadow" : ""}` },
    ...(edits ? [{ title: "", number: true, cell: (each: Limit) => each.by_tenant && <RowLinks of={named(each)} edit={() => open({ what: "limit", limit: each })} end={() => open({ what: "end-limit", limit: each })} /> }] : []),
  ];
}

function RowLinks({ of, edit, end }: { of: string; edit: () => void; end: () => void }) {
  return (
    <span className="row-links">
      <button type="button" className="link" aria-label={`Edit ${of}`} onClick={edit}>Edit…</button>
      <button type="button" className="link" aria-label={`End ${of}`} onClick={end}>End…</button>
    </span>
  );
}
