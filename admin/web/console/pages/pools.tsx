// All pools: which lack something and why, their workers as cells, and what each did and cost in the last 24 hours.

import { Button } from "@mantine/core";
import { Link } from "@tanstack/react-router";
import { useState } from "react";
import { DataTable, type Column } from "../../shared/components/data-table";
import { Sentence } from "../../shared/components/sentence";
import { Sparkline } from "../../shared/components/sparkline";
import { StateShape } from "../../shared/components/state";
import { Told } from "../../shared/components/told";
import { WorkerCells } from "../../shared/components/worker-cells";
import { count, decimal, money, moment, NOBODY_KNOWS, percent } from "../../shared/format";
import { useFreshness } from "../../shared/freshness";
import { useSession } from "../../shared/session";
import { sentence } from "../../shared/words";
import { useDesired, useHours, useMoney, useOverview } from "./pool/asked";
import { CreatePool } from "./pool/create";
import { costCommand, shareOf, type BusyHours, type PoolMoney } from "./pool/money";
import { detailOf, emptyPool, lastingSince, observedOf, sentenceOf, whoseOf, type Desired, type Pool } from "./pool/words";
import "./tenants.css";
import "./pool/pool.css";

export function PoolsPage() {
  const { data, error, dataUpdatedAt } = useOverview();
  const stale = useFreshness(dataUpdatedAt);
  const [earned, hours, desired] = [useMoney(), useHours(), useDesired()];
  if (!data) return error ? <Sentence state="unknown" text="Nobody knows the pools now." detail={sentence(error.detail)} /> : <Loading />;
  const unseen = [...desired.values()].filter((each) => !data.pools.some((pool) => pool.pool === each.pool));
  const pools = [...data.pools, ...unseen.map(emptyPool)].toSorted((one, other) => one.pool.localeCompare(other.pool));
  if (!pools.length) return <NoPools />;
  const verdict = sentenceOf(pools, desired);
  const idle = earned.all?.idleCost ? money(earned.all.idleCost) : "";
  const columns = [NAME, ...(desired.size ? [desiredColumn(desired)] : []), ...NOW, busyColumn(hours), ...(earned.shown ? moneyColumns(earned.of) : [])];
  return (
    <>
      <div className="page-head">
        <Sentence state={stale ? "unknown" : verdict.state} text={stale ? `As last known: ${verdict.text}` : verdict.text} detail={detailOf(pools, idle)} />
        <CreateButton />
      </div>
      <div className={stale ? "pools-list stale" : "pools-list"}>
        <DataTable label="Pools" columns={columns} rows={pools} keyOf={(pool) => pool.pool} />
        <p className="note pools-note">Cells: filled by the KV cache in use; the number is the age of the step in ms. Busy{earned.shown && " and money"}: the last 24 hours.</p>
        {earned.shown && <p className="note pools-note"><Link to="/idle-cost">Idle cost of shared pools in a month, by tenants’ shares</Link></p>}
        {earned.all?.unpriced.map((type) => <p key={type} className="note pools-note">Nobody set what a GPU of type {type} costs, so there is no idle cost and no margin: <code>{costCommand(type)}</code></p>)}
      </div>
    </>
  );
}

const isFull = (pool: Pool) => pool.waiting > 0 && pool.running >= pool.slots;

const NAME: Column<Pool> = { title: "Pool", cell: (pool) => <PoolName pool={pool} /> };
const NOW: readonly Column<Pool>[] = [
  { title: "Running of slots", number: true, phone: "end", cell: (pool) => <>{count(pool.running)} <span className="soft">/ {count(pool.slots)}</span></> },
  { title: "KV, %", number: true, cell: (pool) => (pool.kv === null ? NOBODY_KNOWS : decimal(pool.kv * 100, 0)) },
  { title: "Waiting", number: true, cell: (pool) => <span className={isFull(pool) ? "bad" : ""}>{count(pool.waiting)}</span> },
];

function desiredColumn(desired: ReadonlyMap<string, Desired>): Column<Pool> {
  const cell = (pool: Pool) => {
    const its = desired.get(pool.pool);
    if (!its) return <span className="soft">nobody said</span>;
    const { state, number, why, since } = observedOf(pool, its);
    return (
      <div className="observed">
        <span className="state"><StateShape state={state} /> <span className="tabular">{number}</span></span>{" "}
        <p className="note" title={since ? `Since ${moment(since)}` : ""}><Told text={why} />{since && state !== "well" && `, for ${lastingSince(since)}`}</p>
      </div>
    );
  };
  return { title: "Observed of desired", cell };
}

function busyColumn(hours: (pool: string) => BusyHours | null): Column<Pool> {
  const cell = ({ pool }: Pool) => {
    const its = hours(pool);
    if (!its) return NOBODY_KNOWS;
    return <span className="busy"><Sparkline series={its.busy} bad={false} label={`Busy GPUs of ${pool}, last 24 hours`} /> {percent(shareOf(its))}</span>;
  };
  return { title: "Busy, %", number: true, cell };
}

function moneyColumns(of: (pool: string) => PoolMoney | null): Column<Pool>[] {
  return [
    { title: "Idle cost, USD/day", number: true, cell: ({ pool }) => money(of(pool)?.idleCost) },
    { title: "Commitment, % used", number: true, cell: ({ pool }) => percent(of(pool)?.committed) },
    { title: "Margin, USD/GPU-h", number: true, cell: ({ pool }) => money(of(pool)?.margin) },
  ];
}

function PoolName({ pool }: { pool: Pool }) {
  return (
    <div className="pool-name">
      <p><Link to="/pools/$pool" params={{ pool: pool.pool }}><b>{pool.pool}</b></Link> <span className="soft">{whoseOf(pool)}{pool.model && ` · ${pool.model}`}</span></p>
      {pool.workers.length > 0 && <WorkerCells workers={pool.workers} pool={pool.pool} />}
    </div>
  );
}

function CreateButton() {
  const { may } = useSession();
  const [creating, setCreating] = useState(false);
  if (!may("pools.create")) return null;
  return <><Button onClick={() => setCreating(true)}>Create pool…</Button>{creating && <CreatePool onClose={() => setCreating(false)} />}</>;
}

function NoPools() {
  return <div className="empty"><h1>No pool has workers yet</h1><p>A supervisor starts workers of a pool. On one machine <code>parley up</code> starts one.</p><code>parley supervisor --workers 1</code><CreateButton /></div>;
}

function Loading() {
  return <div aria-busy="true" aria-label="Loading" role="status"><span className="skeleton title" /><span className="skeleton rows" /></div>;
}
