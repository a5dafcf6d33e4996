// A run while it goes on: how far it is, its last steps, how it ended, and a button that stops it.

import { Button } from "@mantine/core";
import { useState } from "react";
import { api, answered, Problem, type Schemas } from "../api";
import { count } from "../format";
import { useLive } from "../live";
import { useSession } from "../session";
import { sentence } from "../words";
import { Meter } from "./meter";
import { StateShape, type StateName } from "./state";
import "./run-progress.css";

type Run = Schemas["RunFacts"];

const [RUN_MS, STEPS_SHOWN] = [1000, 10];
const SHAPES: Record<Run["state"], StateName> = { running: "moving", done: "well", stopped: "cancelled", failed: "bad", refused: "bad", interrupted: "warn" };

export function RunProgress({ run }: { run: string }) {
  const { may } = useSession();
  const [refused, setRefused] = useState("");
  const { data, error, refetch } = useLive(["run", run], () => answered(api.GET("/api/runs/{run}", { params: { path: { run } } })), RUN_MS);
  if (!data) return <p role="status" className="soft">{error ? sentence(error.detail) : "It begins…"}</p>;
  const stop = async () => {
    try {
      await answered(api.POST("/api/runs/{run}/stop", { params: { path: { run } }, body: { reason: "stopped in the console" } }));
      void refetch();
    } catch (problem) {
      setRefused(problem instanceof Problem ? sentence(problem.detail) : String(problem));
    }
  };
  const going = data.state === "running";
  const last = data.events.at(-1);
  const share = going ? (last?.of ? last.done / last.of : 0) : 1;
  return (
    <div className="run" role="group" aria-label="Progress">
      <p className="run-head" role="status"><StateShape state={SHAPES[data.state]} /> <b>{headOf(data)}</b></p>
      {(going || data.state === "done") && <Meter share={share} label="Done" tone="calm" />}
      {data.problem && <p role="alert" className="bad">{sentence(data.problem.detail)}</p>}
      <ol className="run-steps" aria-label="Last steps">
        {data.events.slice(-STEPS_SHOWN).toReversed().map((step) => <li key={`${step.done} ${step.at_ms} ${step.what}`}>{step.what}</li>)}
      </ol>
      {refused && <p role="alert" className="bad">{refused}</p>}
      {going && (
        <div className="run-foot">
          <span className="note">Goes on when closed.</span>
          {may("runs.stop") && <Button variant="default" disabled={data.stop_asked} onClick={() => void stop()}>{data.stop_asked ? "Stops after this one" : "Stop after this one"}</Button>}
        </div>
      )}
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
