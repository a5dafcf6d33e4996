// A run while it goes on: how far it is, its last steps, how it ended, and a button that stops it.

import type { Schemas } from "../api";
import { count } from "../format";
import { sentence } from "../words";
import { Meter } from "./meter";
import { StateShape, type StateName } from "./state";
import { StopRun, useRun } from "./stop-run";
import "./run-progress.css";

type Run = Schemas["RunFacts"];

const STEPS_SHOWN = 10;
const SHAPES: Record<Run["state"], StateName> = { running: "moving", done: "well", stopped: "cancelled", failed: "bad", refused: "bad", interrupted: "warn" };

export function RunProgress({ run }: { run: string }) {
  const { data, error } = useRun(run);
  if (!data) return <p role="status" className="soft">{error ? sentence(error.detail) : "It begins…"}</p>;
  const going = data.state === "running";
  const last = data.events.at(-1);
  const share = going ? (last?.of ? last.done / last.of : 0) : 1;
  return (
    <div className="run" role="group" aria-label="Progress">
      <p className="run-head" role="status"><StateShape state={SHAPES[data.state]} /> <b>{headOf(data)}</b></p>
      {(going || data.state === "done") && <Meter share={share} label="Done" tone="calm" />}
      {error && <p role="alert" className="warn">As last known: {sentence(error.detail)}</p>}
      {data.problem && <p role="alert" className="bad">{sentence(data.problem.detail)}</p>}
      <ol className="run-steps" aria-label="Last steps">
        {data.events.slice(-STEPS_SHOWN).toReversed().map((step) => <li key={`${step.done} ${step.at_ms} ${step.what}`}>{step.what}</li>)}
      </ol>
      {going && <div className="run-foot"><StopRun run={run} /></div>}
    </div>
  );
}

function headOf({ state, events, answer }: Run): string {
  const last = events.at(-1);
  if (state === "running") return last ? `${count(last.done)}${last.of === null ? "" : ` of ${count(last.of)}`} done` : "It begins";
  const given = (answer ?? {}) as { moved?: number; stay?: unknown[] };
  const result = given.moved === undefined ? "" : `: ${count(given.moved)} moved, ${count(given.stay?.length ?? 0)} ${given.stay?.length === 1 ? "stays" : "stay"}`;
  return { done: "Done", stopped: "Stopped", failed: "It failed", refused: "Refused", interrupted: "Interrupted: its process ended" }[state] + result;
}
