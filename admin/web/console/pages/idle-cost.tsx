// What shared pools cost while idle in a month, told apart by tenants' shares of their tokens. No bill has it.

import { Button, NativeSelect } from "@mantine/core";
import { keepPreviousData, useQuery } from "@tanstack/react-query";
import { getRouteApi, Link } from "@tanstack/react-router";
import { DataTable, type Column } from "../../shared/components/data-table";
import { Section } from "../../shared/components/section";
import { api, answered, type Problem, type Schemas } from "../../shared/api";
import { count, money, NOBODY_KNOWS, percent } from "../../shared/format";
import { sentence } from "../../shared/words";
import { monthName } from "./tenant/figures";

type Share = Schemas["IdleShareFacts"];
type Told = Schemas["IdleCosts"];
const route = getRouteApi("/idle-cost");
const ASKED_MS = 60_000;
const MONTHS = 24;

export function IdleCostPage() {
  const { month, pool } = route.useSearch();
  const query = month ? { month } : {};
  const { data, error } = useQuery<Told, Problem>({
    queryKey: ["idle cost", month],
    queryFn: () => answered(api.GET("/api/chargeback/idle", { params: { query } })),
    placeholderData: keepPreviousData,
    refetchInterval: ASKED_MS,
    retry: false,
  });
  if (!data) return error ? <div className="empty"><h1>Nobody knows the idle cost now</h1><p>{sentence(error.detail)}</p></div> : <Loading />;
  const shares = pool ? data.shares.filter((each) => each.pool === pool) : data.shares;
  return (
    <>
      <header className="page-head">
        <div>
          <h1>{pool ? <>Idle cost of <Link to="/pools/$pool" params={{ pool }}>{pool}</Link></> : "Idle cost of shared pools"}</h1>
          <p className="soft">{leadOf(data, shares)}</p>
        </div>
        <div className="ends">
          <Months shown={data.month} />
          <Button component="a" size="xs" variant="default" href={`/api/chargeback/idle/export?${new URLSearchParams({ month: data.month })}`} download>Export CSV</Button>
        </div>
      </header>
      <Section title="By tenant" note="by shares of tokens · on no bill">
        {shares.length ? <Shares of={shares} /> : <p className="soft">No {pool ? "GPU of it" : "shared pool"} was ready in this month.</p>}
      </Section>
      {pool && <p className="note"><Link to="/idle-cost" search={month ? { month } : {}}>All shared pools</Link></p>}
    </>
  );
}

/** November 2026 so far, in UTC: 1,234.00 USD. */
function leadOf(told: Told, shares: readonly Share[]): string {
  const now = new Date().toISOString().slice(0, 7);
  const when = `${monthName(told.month)} ${told.month.slice(0, 4)}${told.month === now ? " so far" : ""}, in UTC`;
  const unknown = new Set(shares.filter((each) => each.idle === null).map((each) => each.pool)).size;
  return `${when}: ${money(sumOf(shares))} USD${unknown ? `, without ${count(unknown)} ${unknown === 1 ? "pool" : "pools"} whose GPUs nobody priced (parley pools costs)` : ""}. Tenants are not charged for it.`;
}

function sumOf(shares: readonly Share[]): NonNullable<Share["idle"]> {
  return { nano: String(shares.reduce((sum, each) => sum + BigInt(each.idle?.nano ?? 0), 0n)), currency: "USD" };
}

function Months({ shown }: { shown: string }) {
  const navigate = route.useNavigate();
  const now = new Date();
  const months = Array.from({ length: MONTHS }, (_, back) => new Date(Date.UTC(now.getUTCFullYear(), now.getUTCMonth() - back, 15)).toISOString().slice(0, 7));
  const offered = [...new Set([shown, ...months])].toSorted().reverse();
  return <NativeSelect size="xs" aria-label="Month" value={shown} onChange={(event) => void navigate({ search: (old) => ({ ...old, month: event.currentTarget.value }) })} data={offered} />;
}

function Shares({ of }: { of: readonly Share[] }) {
  const columns: Column<Share>[] = [
    { title: "Pool", cell: (share) => (share.pool ? <Link to="/pools/$pool" params={{ pool: share.pool }}>{share.pool}</Link> : <b>Total</b>) },
    { title: "Tenant", cell: (share) => (share.tenant ? <Link to="/tenants/$tenant" params={{ tenant: share.tenant }}><b><bdi>{share.name}</bdi></b></Link> : share.pool ? <span className="soft">nobody used it</span> : "") },
    { title: "Tokens", number: true, cell: (share) => (share.pool ? count(share.tokens) : "") },
    { title: "Share, %", number: true, cell: (share) => (!share.pool ? "" : share.of_tokens ? percent(share.tokens / share.of_tokens) : NOBODY_KNOWS) },
    { title: "Idle cost, USD", number: true, phone: "end", cell: (share) => (share.idle ? money(share.idle) : NOBODY_KNOWS) },
  ];
  const total: Share = { pool: "", tenant: "", name: "", tokens: 0, of_tokens: 0, idle: sumOf(of) };
  return <DataTable label="Idle cost" columns={columns} rows={of} keyOf={(share) => `${share.pool} ${share.tenant}`} foot={total} />;
}

function Loading() {
  return <div aria-busy="true" aria-label="Loading" role="status"><span className="skeleton title" /><span className="skeleton rows" /></div>;
}
