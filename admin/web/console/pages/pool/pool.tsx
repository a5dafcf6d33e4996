// One pool: how it does, its workers, whose requests it has, what waits, and what can be done.

import { Button } from "@mantine/core";
import { getRouteApi, Link } from "@tanstack/react-router";
import { useState } from "react";
import { DataTable, type Column } from "../../../shared/components/data-table";
import { Facts, type Fact } from "../../../shared/components/facts";
import { Section } from "../../../shared/components/section";
import { Sentence } from "../../../shared/components/sentence";
import { count, decimal, money, percent } from "../../../shared/format";
import { useFreshness } from "../../../shared/freshness";
import { useSession } from "../../../shared/session";
import { sentence } from "../../../shared/words";
import { REQUESTS_MAX, useDesired, useMonth, useOverview, useRequests, useWorkers } from "./asked";
import { DesiredPool } from "./desired";
import { MoveRequests } from "./move";
import { WorkerTiles } from "./tiles";
import { lineOf, stateOf, tenantsHere, waitingHere, whoseOf, type Listed, type Pool, type Desired, type TenantHere, type WaitingHere } from "./words";
import "../tenants.css";
import "./pool.css";

const route = getRouteApi("/pools/$pool");

export function PoolPage() {
  const { pool: name } = route.useParams();
  const { data, error, dataUpdatedAt } = useOverview();
  const stale = useFreshness(dataUpdatedAt);
  const desired = useDesired().get(name);
  const rows = useWorkers(name);
  const { shown, requests, nowMs } = useRequests(name);
  if (!data) return error ? <Sentence state="unknown" text="Nobody knows this pool now." detail={sentence(error.detail)} /> : <Loading />;
  const pool = data.pools.find((each) => each.pool === name);
  if (!pool && desired) return <OnlyDesired desired={desired} />;
  if (!pool) return <NoPool pool={name} />;
  return (
    <div className={stale ? "stale" : ""}>
      <Head pool={pool} pools={data.pools} requests={requests} />
      <Section title="Workers" note="KV in use · running / slots · age of the step">
        {pool.workers.length ? <WorkerTiles pool={name} workers={pool.workers} rows={rows} /> : <p className="soft">It has none. Start some with <code>parley supervisor --pool {name} --workers 1</code>.</p>}
      </Section>
      <div className="pool">
        <div>{shown && requests && <Here requests={requests} nowMs={nowMs} />}</div>
        <div>{desired && <DesiredPool desired={desired} />}<About pool={pool} /><Money pool={name} /></div>
      </div>
    </div>
  );
}

function Head({ pool, pools, requests }: { pool: Pool; pools: readonly Pool[]; requests: readonly Listed[] | undefined }) {
  const { may } = useSession();
  const [moving, setMoving] = useState(false);
  const { state } = stateOf(pool);
  return (
    <header className="page-head">
      <div>
        <h1>{pool.pool} <span className="tag">{whoseOf(pool)}</span></h1>
        <p className={state === "well" ? "soft" : state}>{lineOf(pool)}</p>
      </div>
      {requests && may("requests.list") && may("requests.migrate_all") && <Button onClick={() => setMoving(true)}>Move requests…</Button>}
      {moving && requests && <MoveRequests from={pool} pools={pools} requests={requests} onClose={() => setMoving(false)} />}
    </header>
  );
}

const WAITING: readonly Column<WaitingHere>[] = [
  { title: "Class", cell: (row) => row.name },
  { title: "Waiting", number: true, phone: "end", cell: (row) => count(row.waiting) },
  { title: "Oldest, s", number: true, cell: (row) => decimal(row.oldest, 1) },
];

function Here({ requests, nowMs }: { requests: readonly Listed[]; nowMs: number }) {
  const { may } = useSession();
  const [tenants, waiting] = [tenantsHere(requests), waitingHere(requests, nowMs)];
  const columns: Column<TenantHere>[] = [
    { title: "Tenant", cell: ({ tenant }) => (may("tenants.show") ? <Link to="/tenants/$tenant" params={{ tenant }}><b>{tenant}</b></Link> : <b>{tenant}</b>) },
    { title: "Running", number: true, phone: "end", cell: (row) => count(row.running) },
    { title: "Waiting", number: true, cell: (row) => count(row.waiting) },
    { title: "Parked or moving", number: true, cell: (row) => count(row.other) },
    { title: "Output so far, tokens", number: true, cell: (row) => count(row.tokens) },
  ];
  const cut = requests.length >= REQUESTS_MAX ? `of the ${count(REQUESTS_MAX)} requests nearest their deadline` : "requests that have not ended";
  return (
    <>
      <Section title="Tenants here" note={cut}>
        {tenants.length ? <DataTable label="Tenants here" columns={columns} rows={tenants} keyOf={(row) => row.tenant} /> : <p className="soft">Nobody: it has no request.</p>}
      </Section>
      <Section title="Waiting">
        {waiting.length ? <DataTable label="Waiting" columns={WAITING} rows={waiting} keyOf={(row) => row.name} /> : <p className="soft">Nothing waits.</p>}
      </Section>
    </>
  );
}

function About({ pool }: { pool: Pool }) {
  const facts: Fact[] = [
    ["Workers", count(pool.workers.length)],
    ["Model", pool.model || "nobody knows yet"],
    ["Whose", pool.shared ? "shared" : pool.tenants.join(", ")],
    ["Running", `${count(pool.running)} of ${count(pool.slots)} slots`],
    ["KV in use", `${percent(pool.kv)} %`],
  ];
  return <Section title="Now"><Facts label="Now" facts={facts} /></Section>;
}

function Money({ pool }: { pool: string }) {
  const { month, of, shown } = useMonth();
  const its = of(pool);
  if (!shown) return null;
  if (!its) return <Section title="Money" note={month}><p className="soft">No whole hour of this pool is in the books of {month} yet.</p></Section>;
  const usd = (amount: Parameters<typeof money>[0]) => (amount ? `${money(amount)} USD` : "nobody set what this GPU costs");
  const facts: Fact[] = [
    ["GPU hours", decimal(its.hours, 1)],
    ["Busy", `${percent(its.busy)} %`],
    ["Commitment used", its.committed === null ? "none" : `${percent(its.committed)} %`],
    ["Earned", usd(its.earned)],
    ["Cost", usd(its.cost)],
    ["Idle cost", usd(its.idleCost)],
    [<b key="margin">Margin per GPU-hour</b>, <b key="amount">{usd(its.margin)}</b>],
  ];
  return <Section title="Money" note={month}><Facts label="Money" facts={facts} /></Section>;
}

/** A pool of which nothing is there yet. */
function OnlyDesired({ desired }: { desired: Desired }) {
  return (
    <>
      <header className="page-head">
        <div>
          <h1>{desired.pool} <span className="tag">{desired.tenant ? `for ${desired.tenant}` : "shared"}</span></h1>
          <p className="soft">None of {count(desired.workers)} desired workers is there yet. <code>parley fleet</code> starts them, or a supervisor on its node.</p>
        </div>
      </header>
      <DesiredPool desired={desired} />
    </>
  );
}

function NoPool({ pool }: { pool: string }) {
  return <div className="empty"><h1>There is no pool {pool}</h1><p>It has no worker and nothing runs there.</p><Link to="/pools">All pools</Link></div>;
}

function Loading() {
  return <div aria-busy="true" aria-label="Loading" role="status"><span className="skeleton title" /><span className="skeleton rows" /></div>;
}
