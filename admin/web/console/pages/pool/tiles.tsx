// A pool's workers, one tile each: how full it is, where it runs, how old its step is, and why it does not serve.

import { Meter } from "../../../shared/components/meter";
import { StateShape, type StateName } from "../../../shared/components/state";
import type { Schemas } from "../../../shared/api";
import { count, lasting, NOBODY_KNOWS } from "../../../shared/format";
import { WorkerMenu } from "./order-worker";

type Cell = Schemas["WorkerCell"];
type Row = Schemas["WorkerRow"];

const SHAPES: Record<Cell["state"], StateName> = { serving: "well", slow: "warn", starting: "starting", draining: "draining", lost: "bad" };

export function WorkerTiles({ workers, rows, pool }: { workers: readonly Cell[]; rows: readonly Row[]; pool: string }) {
  return (
    <ul className="tiles" aria-label={`Workers of ${pool}`}>
      {workers.map((cell) => <Tile key={cell.worker} cell={cell} pool={pool} row={rows.find((each) => each.worker === cell.worker)} />)}
    </ul>
  );
}

function Tile({ cell, row, pool }: { cell: Cell; row: Row | undefined; pool: string }) {
  const kv = cell.kv === null ? NOBODY_KNOWS : Math.round(cell.kv * 100);
  return (
    <li className={`tile ${cell.state}`}>
      <div className="tile-name"><b>{cell.worker}</b> <StateShape state={SHAPES[cell.state]} label={cell.state} /><WorkerMenu cell={cell} pool={pool} /></div>
      <Meter share={cell.kv ?? 0} tone={cell.state === "slow" ? "near" : "calm"} label={`KV of ${cell.worker}`} />
      <p><span>KV {kv} %</span> <span>{count(cell.running)} / {count(cell.slots)}</span></p>
      <p><span>{cell.node || NOBODY_KNOWS}</span> <span className={cell.state === "slow" ? "warn" : ""}>{stepOf(cell)}</span></p>
      {memoryOf(row) && <p><span>Memory</span> <span>{memoryOf(row)}</span></p>}
      {cell.state !== "serving" && <p className={`tile-why ${COLOURS[cell.state]}`}>{cell.state}{cell.why && `: ${cell.why}`}</p>}
    </li>
  );
}

const COLOURS: Record<Cell["state"], string> = { serving: "", slow: "warn", starting: "info", draining: "info", lost: "bad" };

function stepOf({ step_age_ms: age }: Cell): string {
  if (age === null) return "no step yet";
  return age < 10_000 ? `${count(Math.round(age))} ms` : lasting(age / 1000);
}

function memoryOf(row: Row | undefined): string {
  const gpu = row?.gpu;
  if (gpu?.memory_used_mib != null && gpu.memory_total_mib != null) return `${count(gpu.memory_used_mib)} of ${count(gpu.memory_total_mib)} MiB`;
  return row?.memory_mib != null ? `${count(row.memory_mib)} MiB` : "";
}
