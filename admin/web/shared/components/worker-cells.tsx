// Workers as cells: filled from below by the KV cache in use, the number is the age of the step. Over 24 of a pool
// they are small and without numbers, the worst first; the words below count them.

import { CircleDashed, CircleX, TriangleAlert } from "lucide-react";
import "./worker-cells.css";

export type WorkerState = "serving" | "slow" | "starting" | "draining" | "lost";
export type WorkerCell = { worker: string; node: string; state: WorkerState; kv: number | null; step_age_ms: number | null; running: number | null; slots: number | null; why: string };

const LARGE_MAX = 24;
const WORST: readonly WorkerState[] = ["lost", "slow", "starting", "draining", "serving"];

export function WorkerCells({ workers, pool }: { workers: readonly WorkerCell[]; pool: string }) {
  const sorted = workers.toSorted((one, other) => WORST.indexOf(one.state) - WORST.indexOf(other.state) || one.worker.localeCompare(other.worker));
  const small = workers.length > LARGE_MAX;
  const cells = small ? sorted : workers;
  return (
    <>
      <ul className={small ? "cells small" : "cells"} aria-label={`Workers of ${pool}`}>
        {cells.map((worker) => <Cell key={worker.worker} worker={worker} small={small} />)}
      </ul>
      {small && <p className="note">{counted(workers)}</p>}
    </>
  );
}

function Cell({ worker, small }: { worker: WorkerCell; small: boolean }) {
  const told = words(worker);
  const [kv, { state }] = [Math.round((worker.kv ?? 0) * 100), worker];
  return (
    <li className={`cell ${state}`} title={told}>
      {state !== "lost" && state !== "starting" && <span className="cell-fill" style={{ height: `${kv}%` }} />}
      <span className="unseen">{told}</span>
      <span className="cell-text" aria-hidden>
        {state === "lost" && <CircleX size={small ? 10 : 14} />}
        {state === "starting" && <CircleDashed size={small ? 10 : 14} />}
        {state === "slow" && <TriangleAlert size={small ? 9 : 11} />}
        {!small && (state === "serving" || state === "draining" || state === "slow") && age(worker.step_age_ms)}
      </span>
    </li>
  );
}

/** An age as a cell has it: ms, then seconds with one digit. */
function age(ms: number | null): string {
  if (ms === null) return "";
  return ms < 1000 ? String(ms) : `${(ms / 1000).toFixed(ms < 10_000 ? 1 : 0)}s`;
}

function words(worker: WorkerCell): string {
  const parts = [`${worker.worker}, ${worker.state}`];
  if (worker.node) parts.push(`on ${worker.node}`);
  if (worker.kv !== null) parts.push(`KV ${Math.round(worker.kv * 100)} %`);
  if (worker.running !== null) parts.push(`${worker.running} of ${worker.slots ?? "?"} slots`);
  if (worker.step_age_ms !== null) parts.push(`step ${age(worker.step_age_ms)}${worker.step_age_ms < 1000 ? " ms" : ""} ago`);
  if (worker.why) parts.push(worker.why);
  return parts.join(", ");
}

function counted(workers: readonly WorkerCell[]): string {
  const states = WORST.map((state) => [state, workers.filter((each) => each.state === state).length] as const);
  return states.filter(([, number]) => number > 0).map(([state, number]) => `${number} ${state}`).join(", ");
}
