// The button that stops a run, and what is said beside it.

import { Button } from "@mantine/core";
import { useState } from "react";
import { api, answered, Problem } from "../api";
import { useLive } from "../live";
import { useSession } from "../session";
import { sentence } from "../words";

const RUN_MS = 1000;

/** A run, read every second. */
export const useRun = (run: string) => useLive(["run", run], () => answered(api.GET("/api/runs/{run}", { params: { path: { run } } })), RUN_MS);

/** Nothing once the run has ended. */
export function StopRun({ run }: { run: string }) {
  const { may } = useSession();
  const { data, refetch } = useRun(run);
  const [refused, setRefused] = useState("");
  const stop = async () => {
    try {
      await answered(api.POST("/api/runs/{run}/stop", { params: { path: { run } }, body: { reason: "stopped in the console" } }));
      void refetch();
    } catch (problem) {
      setRefused(problem instanceof Problem ? sentence(problem.detail) : String(problem));
    }
  };
  if (data?.state !== "running") return null;
  return (
    <>
      {refused ? <span role="alert" className="bad note">{refused}</span> : <span className="note">Goes on when closed.</span>}
      {may("runs.stop") && <Button variant="default" disabled={data.stop_asked} onClick={() => void stop()}>{data.stop_asked ? "Stops after this one" : "Stop after this one"}</Button>}
    </>
  );
}
