// A tenant's limits with what is used of them, and those of its plan.

import { useQuery } from "@tanstack/react-query";
import { useState } from "react";
import { DataTable, type Column } from "../../../shared/components/data-table";
import { Meter } from "../../../shared/components/meter";
import { Section } from "../../../shared/components/section";
import { api, answered } from "../../../shared/api";
import { count } from "../../../shared/format";
import { useSession } from "../../../shared/session";
import { EditLimit, EndLimit, SetLimit } from "../../../shared/limits/limit-edits";
import { dimensionOf, ownerOf, shareOf, type Limit, type PlanLimit, type Tenant } from "../../../shared/limits/limit-words";

type Row = { key: string; name: string; unit: string; of: string; used: number | null; limit: number; share: number | null; by: string; own: Limit | null };

export function Limits({ tenant, limits }: { tenant: Tenant; limits: readonly Limit[] | undefined }) {
  const { may } = useSession();
  const [opened, setOpened] = useState<Limit | "new" | null>(null);
  const [ending, setEnding] = useState<Limit | null>(null);
  const ofPlan = usePlanLimits(tenant.plan_id);
  const rows = [...(limits ?? []).map(ownRow), ...ofPlan.map(planRow)];
  const columns: Column<Row>[] = [
    { title: "Limit", cell: (row) => <><b>{row.name}</b> <span className="soft">{row.unit}{row.of && ` · ${row.of}`}</span></> },
    { title: "Use", number: true, cell: (row) => count(row.used) },
    { title: "Limit at", number: true, phone: "end", cell: (row) => count(row.limit) },
    { title: "Used, %", cell: (row) => (row.share === null ? "" : <span className="used"><Meter share={row.share} label={`${row.name} ${row.unit} used`} /><span>{Math.round(row.share * 100)}</span></span>) },
    { title: "Set by", cell: (row) => row.by },
    ...(may("limits.edit") ? [{ title: "", number: true, cell: (row: Row) => row.own && <RowLinks limit={row.own} of={`${row.name} ${row.unit}`} edit={setOpened} end={setEnding} /> }] : []),
  ];
  const end = may("limits.set") && <button type="button" className="link" onClick={() => setOpened("new")}>Set limit…</button>;
  return (
    <Section title="Limits" note="use now" end={end}>
      {limits === undefined ? <span className="skeleton" /> : rows.length ? <DataTable label="Limits" columns={columns} rows={rows} keyOf={(row) => row.key} /> : <p className="soft">No limit of its own, and none of a plan: it takes what the pools give it.</p>}
      {opened === "new" && <SetLimit tenant={tenant.name} onClose={() => setOpened(null)} />}
      {ending && <EndLimit tenant={tenant.name} limit={ending} onClose={() => setEnding(null)} />}
      {opened && opened !== "new" && <EditLimit tenant={tenant.name} limit={opened} onClose={() => setOpened(null)} />}
    </Section>
  );
}

function RowLinks({ limit, of, edit, end }: { limit: Limit; of: string; edit: (limit: Limit) => void; end: (limit: Limit) => void }) {
  return (
    <span className="row-links">
      <button type="button" className="link" aria-label={`Edit ${of}`} onClick={() => edit(limit)}>Edit…</button>
      <button type="button" className="link" aria-label={`End ${of}`} onClick={() => end(limit)}>End…</button>
    </span>
  );
}

function ownRow(each: Limit): Row {
  const [name, unit] = dimensionOf(each.dimension);
  const of = [ownerOf(each.scope, each.of), each.models && each.models !== "*" ? each.models : ""].filter(Boolean).join(", ");
  const by = each.mode === "shadow" ? `its own, shadow: ${count(each.would_refuse)} would be refused` : "its own";
  return { key: each.limit_id, name, unit, of, used: each.used, limit: each.burst ?? each.limit, share: shareOf(each), by, own: each };
}

function planRow(each: PlanLimit): Row {
  const [name, unit] = dimensionOf(each.dimension);
  const of = [ownerOf(each.scope, "each"), each.models !== "*" ? each.models : ""].filter(Boolean).join(", ");
  return { key: each.limit_id, name, unit, of, used: null, limit: each.limit, share: null, by: each.mode === "shadow" ? "plan, shadow" : "plan", own: null };
}

function usePlanLimits(plan: string | null): PlanLimit[] {
  const { may } = useSession();
  const { data } = useQuery({
    queryKey: ["plan", plan],
    queryFn: () => answered(api.GET("/api/plans/{plan}", { params: { path: { plan: plan ?? "" } } })),
    enabled: plan !== null && may("plans.show"),
  });
  return (data?.limits ?? []).filter((each) => !each.ended);
}
