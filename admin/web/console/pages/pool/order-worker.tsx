// Draining and killing a worker, each behind what will happen and why it is done.

import { Menu } from "@mantine/core";
import { Ellipsis } from "lucide-react";
import { useState } from "react";
import { EditDialog, terms } from "../../../shared/components/edit-dialog";
import { Facts } from "../../../shared/components/facts";
import { RunProgress } from "../../../shared/components/run-progress";
import { api, answered, type Schemas } from "../../../shared/api";
import { count } from "../../../shared/format";
import { useSession } from "../../../shared/session";

type Cell = Schemas["WorkerCell"];
type Worker = { worker: string; pool: string; onClose: () => void };

export function WorkerMenu({ cell, pool }: { cell: Cell; pool: string }) {
  const { may } = useSession();
  const [opened, setOpened] = useState<"drain" | "kill" | "">("");
  const close = () => setOpened("");
  const drains = may("workers.drain") && (cell.state === "serving" || cell.state === "slow");
  const kills = may("workers.kill") && cell.state !== "lost";
  if (!drains && !kills) return null;
  return (
    <>
      <Menu position="bottom-end" transitionProps={{ duration: 0 }} withinPortal={false} width={150}>
        <Menu.Target><button type="button" className="tile-menu" aria-label={`What can be done with ${cell.worker}`}><Ellipsis size={14} aria-hidden /></button></Menu.Target>
        <Menu.Dropdown>
          {drains && <Menu.Item onClick={() => setOpened("drain")}>Drain…</Menu.Item>}
          {kills && <Menu.Item onClick={() => setOpened("kill")}>Kill…</Menu.Item>}
        </Menu.Dropdown>
      </Menu>
      {opened === "drain" && <Drain worker={cell.worker} pool={pool} onClose={close} />}
      {opened === "kill" && <Kill worker={cell.worker} pool={pool} onClose={close} />}
    </>
  );
}

function Drain({ worker, pool, onClose }: Worker) {
  return (
    <EditDialog
      title={`Drain ${worker}`}
      save="Drain worker"
      onClose={onClose}
      typed=""
      send={(how) => answered(api.POST("/api/workers/{worker}/drain", { params: { path: { worker }, ...terms(how) }, body: { pool, reason: how.reason } }))}
      preview={(would) => ("held" in would ? <Facts boxed label="What happens" facts={[["In hand now", count(would.held)], ["Its requests", "go on elsewhere, at once where another has room"], ["The worker", "ends; its supervisor starts another"]]} /> : null)}
      closes="Close"
      saved={(answer) => ("run" in answer ? <RunProgress run={answer.run} /> : undefined)}
    />
  );
}

function Kill({ worker, pool, onClose }: Worker) {
  return (
    <EditDialog
      title={`Kill ${worker}`}
      save="Kill worker"
      harmful
      confirm={worker}
      note="A drain is kinder where the worker still answers."
      onClose={onClose}
      typed=""
      send={(how) => answered(api.POST("/api/workers/{worker}/kill", { params: { path: { worker }, ...terms(how) }, body: { pool, reason: how.reason } }))}
      preview={(would) => <Facts boxed label="What happens" facts={[["In hand now", count(would.held)], ["Its process and engine", "end at once; its supervisor starts another"], ["Its requests", "go on elsewhere once its lease has lapsed; nothing is lost"]]} />}
    />
  );
}
