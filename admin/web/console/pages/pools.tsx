// All pools: which lack something, their workers as cells, and what each did and cost this month.

import { Button } from "@mantine/core";
import { Link } from "@tanstack/react-router";
import { useState } from "react";
import { DataTable, type Column } from "../../shared/components/data-table";
import { Sentence } from "../../shared/components/sentence";
import { StateShape } from "../../shared/components/state";
import { WorkerCells } from "../../shared/components/worker-cells";
import { count, decimal, money, NOBODY_KNOWS, percent } from "../../shared/format";
import { useFreshness } from "../../shared/freshness";
import { useSession } from "../../shared/session";
import { sentence } from "../../shared/words";
import { useDesired, useMonth, useOverview } from "./pool/asked";
import { CreatePool } from "./pool/desired";
import { detailOf, observedOf, sentenceOf, whoseOf, type Desired, type Pool, type PoolMoney } from "./pool/words";
import "./tenants.css";
import "./pool/pool.css";

export function PoolsPage() {
  const { data, error, dataUpdatedAt } = useOverview();
  const stale = useFreshness(dataUpdatedAt);
  const month = useMonth();
  const desired = useDesired();
  if (!data) return error ? <Sentence state="unknown" text="Nobody knows the pools now." detail={sentence(error.detail)} /> : <Loading />;
  const unseen = [...desired.values()].filter((each) => !data.pools.some((pool) => pool.pool === each.pool));
  if (!data.pools.length && !unseen.length) return <NoPools />;
  const verdict = sentenceOf(data.pools);
  const columns = [...NOW.slice(0, 1), ...(desired.size ? [desiredColumn(desired)] : []), ...NOW.slice(1), ...(month.shown ? moneyColumns(month.of) : [])];
  return (
    <>
      <div className="page-head">
        <Sentence state={stale ? "unknown" : verdict.state} text={stale ? `As last known: ${verdict.text}` : verdict.text} detail={detailOf(data.pools)} />
        <CreateButton />
      </div>
      <div className={stale ? "pools-list stale" : "pools-list"}>
        <DataTable label="Pools" columns={columns} rows={data.pools} keyOf={(pool) => pool.pool} />
        {unseen.length > 0 && <Unseen pools={unseen} />}
        <p className="note pools-note">Cells: filled by the KV cache in use; the number is the age of the step in ms.{month.shown && ` Money and GPU hours: ${month.month}, whole hours, UTC.`}</p>
      </div>
    </>
  );
}

const isFull = (pool: Pool) => pool.waiting > 0 && pool.running >= pool.slots;

const NOW: readonly Column<Pool>[] = [
  { title: "Pool", cell: (pool) => <PoolName pool={pool} /> },
  { title: "Running", number: true, phone: "end", cell: (pool) => <>{count(pool.running)} <span className="soft">/ {count(pool.slots)}</span></> },
  { title: "KV, %", number: true, cell: (pool) => (pool.kv === null ? NOBODY_KNOWS : decimal(pool.kv * 100, 0)) },
  { title: "Waiting", number: true, cell: (pool) => <span className={isFull(pool) ? "bad" : ""}>{count(pool.waiting)}</span> },
];

function desiredColumn(desired: ReadonlyMap<string, Desired>): Column<Pool> {
  const cell = (pool: Pool) => {
    const its = desired.get(pool.pool);
    if (!its) return <span className="soft">nobody said</span>;
    const { state, number, why } = observedOf(pool, its);
    return <span className="state"><StateShape state={state} /> <span className="tabular">{number}</span> <span className="soft">{why}</span></span>;
  };
  return { title: "Observed of desired", cell };
}

function moneyColumns(of: (pool: string) => PoolMoney | null): Column<Pool>[] {
  return [
    { title: "GPU hours", number: true, cell: ({ pool }) => decimal(of(pool)?.hours, 1) },
    { title: "Busy, %", number: true, cell: ({ pool }) => percent(of(pool)?.busy) },
    { title: "Idle cost, USD", number: true, cell: ({ pool }) => money(of(pool)?.idleCost) },
    { title: "Commitment used, %", number: true, cell: ({ pool }) => percent(of(pool)?.committed) },
    { title: "Margin, USD/GPU-h", number: true, cell: ({ pool }) => money(of(pool)?.margin) },
  ];
}

function PoolName({ pool }: { pool: Pool }) {
  return (
    <div className="pool-name">
      <p><Link to="/pools/$pool" params={{ pool: pool.pool }}><b>{pool.pool}</b></Link> <span className="soft">{whoseOf(pool)}{pool.model && ` · ${pool.model}`}</span></p>
      <WorkerCells workers={pool.workers} pool={pool.pool} />
      {pool.why && <p className="note">{pool.why}</p>}
    </div>
  );
}

function CreateButton() {
  const { may } = useSession();
  const [creating, setCreating] = useState(false);
  if (!may("pools.create")) return null;
  return <><Button onClick={() => setCreating(true)}>Create pool…</Button>{creating && <CreatePool onClose={() => setCreating(false)} />}</>;
}

/** Pools that are desired and of which nothing is there yet. */
function Unseen({ pools }: { pools: readonly Desired[] }) {
  return (
    <ul className="pools-unseen" aria-label="Desired, nothing there yet">
      {pools.map((each) => <li key={each.pool}><StateShape state="starting" /> <Link to="/pools/$pool" params={{ pool: each.pool }}><b>{each.pool}</b></Link> <span className="soft">{each.tenant ? `for ${each.tenant}` : "shared"} · {each.model} {each.version} · 0 of {count(each.workers)} workers</span></li>)}
    </ul>
  );
}

function NoPools() {
  return <div className="empty"><h1>No pool has workers yet</h1><p>A supervisor starts workers of a pool. On one machine <code>parley up</code> starts one.</p><code>parley supervisor --workers 1</code><CreateButton /></div>;
}

function Loading() {
  return <div aria-busy="true" aria-label="Loading" role="status"><span className="skeleton title" /><span className="skeleton rows" /></div>;
}
