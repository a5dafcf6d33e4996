// Deleting a pool: it is drained, and once nothing is left there it is deleted. Who closes the dialog leaves it drained.

import { useNavigate } from "@tanstack/react-router";
import { useEffect, useRef, useState } from "react";
import { EditDialog, terms } from "../../../shared/components/edit-dialog";
import { Facts, type Fact } from "../../../shared/components/facts";
import { api, answered, Problem } from "../../../shared/api";
import { newId } from "../../../shared/ids";
import { sentence } from "../../../shared/words";
import type { Desired } from "./words";

const AGAIN_MS = 2000;

export function DeletePool({ desired: { pool, state }, onClose }: { desired: Desired; onClose: () => void }) {
  const reason = useRef("");
  const happens: Fact[] = [
    ["New requests", state === "active" ? "go elsewhere, or are refused where nothing else serves them" : "go elsewhere already"],
    ["What it has", "ends there first: nothing is cut off"],
    ["Then", "it is deleted, while this is open"],
    ["Its history", "stays: who paid for it when"],
  ];
  return (
    <EditDialog
      title={`Delete ${pool}`}
      save={state === "active" ? "Drain, then delete" : "Delete pool"}
      harmful
      confirm={pool}
      onClose={onClose}
      typed=""
      send={(how) => {
        reason.current = how.reason;
        return answered(api.POST("/api/pools/{pool}/drain", { params: { path: { pool }, ...terms(how) }, body: { reason: how.reason } }));
      }}
      preview={() => <Facts boxed label="What happens" facts={happens} />}
      closes="Close"
      saved={() => <Emptying pool={pool} reason={reason.current} />}
    />
  );
}

/** Waits until nothing is left in a drained pool, and deletes it then. */
function Emptying({ pool, reason }: { pool: string; reason: string }) {
  const navigate = useNavigate();
  const [left, setLeft] = useState("");
  useEffect(() => {
    let waiting = 0;
    let stopped = false;
    const tried = async () => {
      const how = { dryRun: false, reason, tag: undefined, key: newId() };
      try {
        await answered(api.DELETE("/api/pools/{pool}", { params: { path: { pool }, ...terms(how) }, body: { reason } }));
        if (!stopped) void navigate({ to: "/pools" });
      } catch (error) {
        if (stopped) return;
        setLeft(error instanceof Problem ? error.detail : String(error));
        waiting = window.setTimeout(() => void tried(), AGAIN_MS);
      }
    };
    void tried();
    return () => {
      stopped = true;
      window.clearTimeout(waiting);
    };
  }, [pool, reason, navigate]);
  return (
    <div role="status">
      <p><b>{pool} is drained.</b> It is deleted as soon as it is empty.</p>
      {left && <p className="soft">{sentence(left)}</p>}
      <p className="note">Closed, it stays drained: delete it later, or take it back.</p>
    </div>
  );
}
