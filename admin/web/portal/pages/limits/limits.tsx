// Limits and budgets of the tenant, with what is used of them now.

import { DataTable, type Column } from "../../../shared/components/data-table";
import { Meter } from "../../../shared/components/meter";
import { Section } from "../../../shared/components/section";
import { api, answered } from "../../../shared/api";
import { count, money } from "../../../shared/format";
import { budgetName, dimensionOf, ownerOf, shareOf, verdictOf, type Budget, type Limit } from "../../../shared/limit-words";
import { useLive } from "../../../shared/live";
import { useSession } from "../../../shared/session";
import { useTenant } from "../../tenant";

export function LimitsPage() {
  const { id, facts } = useTenant();
  const { may } = useSession();
  const path = { tenant: id };
  const limits = useLive(["limits", id], () => answered(api.GET("/api/tenants/{tenant}/limits", { params: { path } })), 5000).data?.items;
  const budgets = useLive(["budgets", id], async () => (may("budgets.list") ? await answered(api.GET("/api/tenants/{tenant}/budgets", { params: { path } })) : { items: [], next: null }), 5000).data?.items;
  const lead = facts && limits && budgets ? verdictOf(facts, limits, budgets).text : "";
  return (
    <>
      <h1 className="page-title">Limits and budgets</h1>
      <p className="lead">{lead || <span className="skeleton" />}</p>
      {may("budgets.list") && <Section title="Budgets" note="USD">{budgets?.length ? <DataTable label="Budgets" columns={BUDGETS} rows={budgets} keyOf={(each) => each.budget} /> : <p className="soft">No budget: what is spent is held back by the wallet or the plan alone.</p>}</Section>}
      <Section title="Limits" note="use now">{limits?.length ? <DataTable label="Limits" columns={LIMITS} rows={limits} keyOf={(each) => each.limit_id} /> : <p className="soft">No limit of your own. Those of your plan hold.</p>}</Section>
    </>
  );
}

const used = (share: number, label: string) => <span className="used"><Meter share={share} label={label} /><span>{Math.round(share * 100)}</span></span>;

const BUDGETS: Column<Budget>[] = [
  { title: "Budget", cell: (each) => <b>{capital(budgetName(each))}</b> },
  { title: "Spent", number: true, cell: (each) => money(each.spent) },
  { title: "Of", number: true, phone: "end", cell: (each) => money(each.override ?? each.limit) },
  { title: "Used, %", cell: (each) => used((each.percent ?? 0) / 100, `${budgetName(each)} spent`) },
  { title: "Gone about", right: true, cell: (each) => each.exhausted?.slice(0, 10) ?? "" },
];

const LIMITS: Column<Limit>[] = [
  { title: "Limit", cell: (each) => <><b>{dimensionOf(each.dimension)[0]}</b> <span className="soft">{[dimensionOf(each.dimension)[1], ownerOf(each.scope, each.id)].filter(Boolean).join(" · ")}</span></> },
  { title: "Use", number: true, cell: (each) => count(each.used) },
  { title: "Limit at", number: true, phone: "end", cell: (each) => count(each.burst ?? each.limit) },
  { title: "Used, %", cell: (each) => (shareOf(each) === null ? "" : used(shareOf(each) ?? 0, `${dimensionOf(each.dimension)[0]} used`)) },
];

const capital = (text: string) => text.charAt(0).toUpperCase() + text.slice(1);
