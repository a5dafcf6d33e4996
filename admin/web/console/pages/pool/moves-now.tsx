// Moves of tenants that go on or ended early, on the page of a pool or a tenant, and their progress opened again.

import { Button, Modal } from "@mantine/core";
import { useMediaQuery } from "@mantine/hooks";
import { useState } from "react";
import { StateShape } from "../../../shared/components/state";
import { StopRun } from "../../../shared/components/stop-run";
import { api, answered, type Schemas } from "../../../shared/api";
import { useLive } from "../../../shared/live";
import { useSession } from "../../../shared/session";
import { MoveProgress } from "./move-progress";
import { moveLine, movesToTell, type MoveRun } from "./move-words";

const NEWEST = 50;

export function MovesNow(of: { pool?: string; tenant?: string }) {
  const { may } = useSession();
  const [opened, setOpened] = useState<MoveRun | null>(null);
  const shown = may("runs.list");
  const ask = async () => (shown ? (await answered(api.GET("/api/runs", { params: { query: { operation: "pools.move", limit: NEWEST } } }))).items : ([] as Schemas["RunSummary"][]));
  const { data } = useLive(["moves"], ask);
  const moves = movesToTell(data ?? [], of, Date.now());
  return (
    <>
      {moves.length > 0 && (
        <ul className="moves-now" aria-label="Moves">
          {moves.map((run) => (
            <li key={run.run}>
              <StateShape state={run.state === "running" ? "moving" : "warn"} /> <span>{moveLine(run)}</span>
              {may("runs.show") && <button type="button" className="link" onClick={() => setOpened(run)}>Show progress…</button>}
            </li>
          ))}
        </ul>
      )}
      {opened && <Progress of={opened} onClose={() => setOpened(null)} />}
    </>
  );
}

function Progress({ of: { run, move }, onClose }: { of: MoveRun; onClose: () => void }) {
  const phone = useMediaQuery("(width < 640px)") ?? false;
  return (
    <Modal opened onClose={onClose} title={`Moving ${move.tenant} to ${move.to}`} size={480} fullScreen={phone}>
      <div className="edit">
        <div><MoveProgress run={run} from={move.pool} to={move.to} /></div>
        <div className="edit-foot"><StopRun run={run} /><Button onClick={onClose} data-autofocus>Close</Button></div>
      </div>
    </Modal>
  );
}
