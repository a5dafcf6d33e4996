// Whose requests a pool has, what they take of it beside their fair share, and what waits by class.

import { Link } from "@tanstack/react-router";
import { DataTable, type Column } from "../../../shared/components/data-table";
import { Section } from "../../../shared/components/section";
import { StateShape } from "../../../shared/components/state";
import type { Schemas } from "../../../shared/api";
import { count, decimal, NOBODY_KNOWS, percent } from "../../../shared/format";
import { useSession } from "../../../shared/session";
import { REQUESTS_MAX } from "./asked";
import { isOverShare, tenantsHere, waitingHere, type Listed, type TenantHere, type WaitingHere as Waits } from "./words";

type Share = Schemas["TenantShare"];

export function TenantsHere({ requests, shares }: { requests: readonly Listed[]; shares: readonly Share[] }) {
  const { may } = useSession();
  const tenants = tenantsHere(requests);
  const shareOf = ({ tenant }: TenantHere) => shares.find((each) => each.tenant_name === tenant);
  const columns: Column<TenantHere>[] = [
    { title: "Tenant", cell: ({ tenant }) => (may("tenants.show") ? <Link to="/tenants/$tenant" params={{ tenant }}><b>{tenant}</b></Link> : <b>{tenant}</b>) },
    { title: "Running", number: true, phone: "end", cell: (row) => count(row.running) },
    { title: "Waiting", number: true, cell: (row) => <>{count(row.waiting)}{shareOf(row)?.at_cap && <span className="soft"> at its cap</span>}</> },
    { title: "Parked or moving", number: true, cell: (row) => count(row.other) },
    ...(may("pools.shares") ? shareColumns(shareOf, shares) : []),
    { title: "Output so far, tokens", number: true, cell: (row) => count(row.tokens) },
  ];
  const cut = requests.length >= REQUESTS_MAX ? `of the ${count(REQUESTS_MAX)} requests nearest their deadline` : "share of the KV tokens in flight";
  return (
    <Section title="Tenants here" note={cut}>
      {tenants.length ? <DataTable label="Tenants here" columns={columns} rows={tenants} keyOf={(row) => row.tenant} /> : <p className="soft">Nobody: it has no request.</p>}
    </Section>
  );
}

function shareColumns(shareOf: (row: TenantHere) => Share | undefined, all: readonly Share[]): Column<TenantHere>[] {
  const share = (row: TenantHere) => {
    const its = shareOf(row);
    if (!its || its.share === null) return NOBODY_KNOWS;
    return isOverShare(its, all) ? <span className="state warn"><StateShape state="warn" label="Well over its fair share while others wait" /> <b>{percent(its.share)}</b></span> : percent(its.share);
  };
  return [
    { title: "Share, %", number: true, cell: share },
    { title: "Fair share, %", number: true, cell: (row) => percent(shareOf(row)?.fair_share) },
  ];
}

const WAITING: readonly Column<Waits>[] = [
  { title: "Class", cell: (row) => row.name },
  { title: "Waiting", number: true, phone: "end", cell: (row) => count(row.waiting) },
  { title: "Oldest, s", number: true, cell: (row) => decimal(row.oldest, 1) },
];

export function WaitingHere({ requests, nowMs }: { requests: readonly Listed[]; nowMs: number }) {
  const waiting = waitingHere(requests, nowMs);
  return <Section title="Waiting">{waiting.length ? <DataTable label="Waiting" columns={WAITING} rows={waiting} keyOf={(row) => row.name} /> : <p className="soft">Nothing waits.</p>}</Section>;
}
