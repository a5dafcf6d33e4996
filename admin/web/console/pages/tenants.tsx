// All tenants: how many, which, found by name and state, by a cursor.

import { Button, NativeSelect, TextInput } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { getRouteApi, Link } from "@tanstack/react-router";
import { useEffect, useState } from "react";
import { DataTable, type Column } from "../../shared/components/data-table";
import { LoadMore, usePages } from "../../shared/components/load-more";
import { Sentence } from "../../shared/components/sentence";
import { StateShape } from "../../shared/components/state";
import { api, answered, type Schemas } from "../../shared/api";
import { ago, count, NOBODY_KNOWS } from "../../shared/format";
import { useSession } from "../../shared/session";
import { sentence } from "../../shared/words";
import { CreateTenant } from "./tenant/create-tenant";
import { date } from "./tenant/words";
import "./tenants.css";

type Tenant = Schemas["TenantFacts"];
type Filter = { name?: string; state?: "open" | "closed" };
const route = getRouteApi("/tenants");

export function TenantsPage() {
  const filter: Filter = route.useSearch();
  const { may } = useSession();
  const [creating, setCreating] = useState(false);
  const { items, error, more } = usePages(["tenants", filter], (after) => answered(api.GET("/api/tenants", { params: { query: { ...filter, after } } })));
  const plans = usePlans();
  const columns: Column<Tenant>[] = [
    { title: "Tenant", cell: (row) => <Link to="/tenants/$tenant" params={{ tenant: row.name }}><b>{row.name}</b></Link> },
    { title: "Plan", cell: (row) => (row.plan ? (plans.get(row.plan) ?? row.plan) : NOBODY_KNOWS) },
    { title: "State", phone: "end", cell: (row) => <span className="state"><StateShape state={row.closed ? "cancelled" : "well"} /> {row.closed ? "closed" : "open"}</span> },
    { title: "Priority up to", cell: (row) => row.priority_max },
    { title: "Price book", phone: "hide", cell: (row) => row.price_book },
    { title: "Time zone", phone: "hide", cell: (row) => row.time_zone },
    { title: "Since", number: true, cell: (row) => <time dateTime={row.created ?? ""} title={row.created ? ago(row.created) : ""}>{date(row.created)}</time> },
  ];
  if (!items) return error ? <Sentence state="unknown" text="Nobody knows the tenants now." detail={sentence(error.detail)} /> : <Loading />;
  return (
    <>
      <header className="page-head">
        <div><h1>{heading(items, more.has, filter)}</h1><p className="soft">{detail(items)}</p></div>
        {may("tenants.create") && <Button onClick={() => setCreating(true)}>Create tenant…</Button>}
      </header>
      <Filters filter={filter} />
      {items.length ? <DataTable label="Tenants" columns={columns} rows={items} keyOf={(row) => row.tenant} /> : <NoTenants filtered={Boolean(filter.name || filter.state)} />}
      <LoadMore more={more} what="tenants" />
      {creating && <CreateTenant onClose={() => setCreating(false)} />}
    </>
  );
}

function heading(items: readonly Tenant[], more: boolean, { name, state }: Filter): string {
  const what = `${state ? `${state} ` : ""}${items.length === 1 && !more ? "tenant" : "tenants"}`;
  const number = more ? `More than ${count(items.length)}` : items.length ? count(items.length) : "No";
  return `${number} ${what}${name ? ` with “${name}” in their name` : ""}.`;
}

function detail(items: readonly Tenant[]): string {
  const closed = items.filter((each) => each.closed).length;
  return items.length ? `The oldest first. ${closed ? `${count(closed)} of those shown ${closed === 1 ? "is" : "are"} closed.` : "None of those shown is closed."}` : "";
}

/** The names of plans by their ids. */
export function usePlans(): Map<string, string> {
  const { may } = useSession();
  const { data } = useQuery({ queryKey: ["plans"], queryFn: () => answered(api.GET("/api/plans", { params: { query: { limit: 1000 } } })), enabled: may("plans.list"), staleTime: 60_000 });
  return new Map((data?.items ?? []).map((plan) => [plan.plan, plan.name]));
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
