// All tenants: how many, which need somebody and why, how each does; found by name and state, by a cursor.

import { Button, NativeSelect, TextInput } from "@mantine/core";
import { getRouteApi, Link } from "@tanstack/react-router";
import { useEffect, useState } from "react";
import { DataTable, type Column } from "../../shared/components/data-table";
import { LoadMore, usePages } from "../../shared/components/load-more";
import { Sentence } from "../../shared/components/sentence";
import { StateShape } from "../../shared/components/state";
import { api, answered, type Schemas } from "../../shared/api";
import { ago, count, money, NOBODY_KNOWS, percent } from "../../shared/format";
import { useLive } from "../../shared/live";
import { useSession } from "../../shared/session";
import { sentence } from "../../shared/words";
import { CreateTenant } from "./tenant/create-tenant";
import { date } from "../../shared/limits/limit-words";
import "./tenants.css";

type Tenant = Schemas["TenantFacts"];
type Filter = { name?: string; state?: "open" | "closed" };
const route = getRouteApi("/tenants");

export function TenantsPage() {
  const filter: Filter = route.useSearch();
  const { may } = useSession();
  const [creating, setCreating] = useState(false);
  const { items, error, more } = usePages(["tenants", filter], (after) => answered(api.GET("/api/tenants", { params: { query: { ...filter, after } } })));
  const figures = useFigures(filter, items?.length ?? 0);
  const needs = useNeeds();
  const needsOf = new Map(needs?.items.map((each) => [each.tenant, each.needs]));
  const columns: Column<Tenant>[] = [
    { title: "Tenant", cell: (row) => <Link to="/tenants/$tenant" params={{ tenant: row.name }}><b>{row.name}</b></Link> },
    { title: "State", phone: "end", cell: (row) => <TenantState closed={row.closed !== null} needs={needsOf.get(row.tenant) ?? []} /> },
    { title: "Plan", cell: (row) => row.plan ?? NOBODY_KNOWS },
    { title: "Open requests", number: true, cell: (row) => count(figures.get(row.tenant)?.open) },
    { title: "Ended in 24 h", number: true, cell: (row) => count(figures.get(row.tenant)?.ended) },
    { title: "Errors, %", number: true, cell: (row) => <Errors of={figures.get(row.tenant)} /> },
    { title: "Cost this month, USD", number: true, cell: (row) => money(figures.get(row.tenant)?.month_cost) },
    { title: "Since", right: true, phone: "hide", cell: (row) => <time dateTime={row.created ?? ""} title={row.created ? ago(row.created) : ""}>{date(row.created)}</time> },
  ];
  if (!items) return error ? <Sentence state="unknown" text="Nobody knows the tenants now." detail={sentence(error.detail)} /> : <Loading />;
  return (
    <>
      <header className="page-head">
        <div><h1>{heading(items, more.has, filter, needs)}</h1><p className="soft">{detail(items, needs)}</p></div>
        {may("tenants.create") && <Button onClick={() => setCreating(true)}>Create tenant…</Button>}
      </header>
      <Filters filter={filter} />
      {items.length ? <DataTable label="Tenants" columns={columns} rows={items} keyOf={(row) => row.tenant} /> : <NoTenants filtered={Boolean(filter.name || filter.state)} />}
      <LoadMore more={more} what="tenants" />
      {creating && <CreateTenant onClose={() => setCreating(false)} />}
    </>
  );
}

type Figures = Schemas["TenantFigures"];
type Needs = Schemas["NeedyTenants"];

/** How the tenants that are shown do: pages of the same list, as far as it is shown. */
function useFigures(filter: Filter, shown: number): Map<string, Figures> {
  const { may } = useSession();
  const limit = Math.min(1000, Math.max(100, shown));
  const ask = async () => (may("tenants.figures") ? answered(api.GET("/api/tenant-figures", { params: { query: { ...filter, limit } } })) : { items: [] as Figures[] });
  const { data } = useLive(["tenant figures", filter, limit], ask, limit > 100 ? 30_000 : 10_000);
  return new Map((data?.items ?? []).map((each) => [each.tenant, each]));
}

function useNeeds(): Needs | undefined {
  const { may } = useSession();
  const ask = async () => (may("tenants.needs") ? answered(api.GET("/api/tenant-needs", { params: { query: { limit: 1000 } } })) : null);
  return useLive<Needs | null>(["tenant needs"], ask, 10_000).data ?? undefined;
}

function TenantState({ closed, needs }: { closed: boolean; needs: Needs["items"][number]["needs"] }) {
  if (closed) return <span className="state"><StateShape state="cancelled" /> closed</span>;
  if (!needs.length) return <span className="state"><StateShape state="well" /> open</span>;
  return <span className="state"><StateShape state="warn" /> {needs.map((need) => NEEDS[need]).join(", ")}</span>;
}

const NEEDS: Record<Needs["items"][number]["needs"][number], string> = { over_budget: "over budget", empty_wallet: "wallet empty", owes: "owes", noisy: "over fair share" };

function Errors({ of }: { of: Figures | undefined }) {
  const share = of && of.ended ? of.errors / of.ended : null;
  return <span className={(share ?? 0) >= 0.05 ? "bad" : ""}>{percent(share)}</span>;
}

function heading(items: readonly Tenant[], more: boolean, { name, state }: Filter, needs: Needs | undefined): string {
  const all = needs && !name && state === undefined;
  const open = all ? needs.tenants : items.length;
  const kind = state ? `${state} ` : all && items.some((each) => each.closed) ? "open " : "";
  const what = `${kind}${open === 1 && (all || !more) ? "tenant" : "tenants"}`;
  const number = !all && more ? `More than ${count(open)}` : open ? count(open) : "No";
  const who = all && needs.needy ? `; ${count(needs.needy)} ${needs.needy === 1 ? "needs" : "need"} you` : "";
  return `${number} ${what}${name ? ` with “${name}” in their name` : ""}${who}.`;
}

const NAMED_MAX = 3;

/** Who needs somebody and why; else how many are closed. */
function detail(items: readonly Tenant[], needs: Needs | undefined): string {
  if (needs?.items.length) {
    const named = needs.items.slice(0, NAMED_MAX).map((each) => `${each.name}: ${each.needs.map((need) => NEEDS[need]).join(", ")}`);
    return `${named.join(" · ")}${needs.needy > NAMED_MAX ? ` · ${count(needs.needy - NAMED_MAX)} more` : ""}`;
  }
  const closed = items.filter((each) => each.closed).length;
  return items.length ? `The oldest first. ${closed ? `${count(closed)} of those shown ${closed === 1 ? "is" : "are"} closed.` : "None of those shown is closed."}` : "";
}

function Filters({ filter }: { filter: Filter }) {
  const navigate = route.useNavigate();
  const [name, setName] = useState(filter.name ?? "");
  useEffect(() => setName(filter.name ?? ""), [filter.name]);
  const set = (given: Partial<Record<keyof Filter, string>>) => {
    const all = { ...filter, ...given };
    void navigate({ search: Object.fromEntries(Object.entries(all).filter(([, value]) => value)), replace: true });
  };
  useEffect(() => {
    if (name.trim() === (filter.name ?? "")) return;
    const waiting = setTimeout(() => set({ name: name.trim() }), 200);
    return () => clearTimeout(waiting);
  });
  return (
    <div className="filters" role="search" aria-label="Filter tenants">
      <TextInput aria-label="Name contains" placeholder="Name contains" value={name} maxLength={100} onChange={(event) => setName(event.currentTarget.value)} spellCheck={false} autoComplete="off" />
      <NativeSelect aria-label="State" value={filter.state ?? ""} onChange={(event) => set({ state: event.currentTarget.value })} data={[{ value: "", label: "Open and closed" }, { value: "open", label: "Open" }, { value: "closed", label: "Closed" }]} />
    </div>
  );
}

function NoTenants({ filtered }: { filtered: boolean }) {
  if (filtered) return <div className="empty"><h2>No tenant matches</h2><Link to="/tenants">Clear filters</Link></div>;
  return <div className="empty"><h2>No tenant yet</h2><p>A tenant has keys, users and limits of its own. Create one above, or with the command.</p><code>parley tenants create acme --reason “first customer”</code></div>;
}

function Loading() {
  return <div aria-busy="true" aria-label="Loading" role="status"><span className="skeleton title" /><span className="skeleton rows" /></div>;
}
