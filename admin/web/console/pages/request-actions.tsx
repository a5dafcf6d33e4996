// What can be done with a request: look at those like it, cancel it, move it to another pool.

import { Button, NativeSelect } from "@mantine/core";
import { Link } from "@tanstack/react-router";
import { useState } from "react";
import { EditDialog, terms } from "../../shared/components/edit-dialog";
import { Facts } from "../../shared/components/facts";
import { api, answered, Problem, type Schemas } from "../../shared/api";
import { useSession } from "../../shared/session";
import { usePools } from "../../shared/requests/data";
import type { RequestsFilter } from "../../shared/requests/filter";

type Explained = Schemas["Explained"];

export function RequestActions({ found }: { found: Explained }) {
  const { may } = useSession();
  const [opened, setOpened] = useState<"cancel" | "move" | null>(null);
  const runs = found.in_pool !== null && found.in_pool.row.status !== "ended" && !found.booked;
  const close = () => setOpened(null);
  return (
    <div className="request-buttons">
      {may("requests.find") && <Button variant="default" renderRoot={(props) => <Link {...props} to="/requests" search={like(found)} />}>Show like this</Button>}
      {runs && may("requests.migrate") && <Button variant="default" onClick={() => setOpened("move")}>Move…</Button>}
      {runs && may("requests.cancel") && <Button variant="default" onClick={() => setOpened("cancel")}>Cancel…</Button>}
      {opened === "cancel" && <CancelDialog found={found} onClose={close} />}
      {opened === "move" && <MoveDialog found={found} onClose={close} />}
    </div>
  );
}

/** The filter that finds requests like this one. */
function like({ booked, tenant_name, in_pool: live }: Explained): RequestsFilter {
  if (!booked) return { tenant: tenant_name, ...(live ? { pool: live.row.pool } : {}) };
  const outcome = booked.reason as NonNullable<RequestsFilter["outcome"]>;
  return { tenant: tenant_name, pool: booked.pool, model: booked.model, ...(booked.reason === "stop" ? {} : { outcome }), since: "7d" };
}

const CANCELS: Record<string, string> = {
  would_end: "It ends at once: its readers get `cancelled`, what was written is billed.",
  had_ended: "It has ended already: nothing is left to cancel.",
};

function CancelDialog({ found, onClose }: { found: Explained; onClose: () => void }) {
  const path = { request: found.id };
  return (
    <EditDialog
      title="Cancel this request"
      save="Cancel the request"
      harmful
      onClose={onClose}
      typed=""
      send={(how) => answered(api.POST("/api/requests/{request}/cancel", { params: { path, ...terms(how) }, body: { tenant: found.tenant, reason: how.reason } }))}
      preview={(answer) => <p>{CANCELS[answer.state] ?? answer.state} It is {answer.was} in {answer.pool}.</p>}
      saved={(answer) => (answer.state === "told" ? <p>Its worker is told, and has not ended it yet. This page shows when it has.</p> : undefined)}
      note="It cannot be taken back: the answer ends here."
    />
  );
}

function MoveDialog({ found, onClose }: { found: Explained; onClose: () => void }) {
  const pools = usePools() ?? [];
  const here = found.in_pool?.row.pool ?? "";
  const others = pools.filter((pool) => pool !== here);
  const [to, setTo] = useState("");
  const path = { request: found.id };
  return (
    <EditDialog
      title="Move this request"
      save="Move it"
      onClose={onClose}
      typed={to ? JSON.stringify({ to }) : ""}
      send={async (how) => {
        const answer = await answered(api.POST("/api/requests/{request}/migrate", { params: { path, ...terms(how) }, body: { tenant: found.tenant, pool: here, to, reason: how.reason } }));
        if (!how.dryRun && !answer.moved) throw new Problem(409, `It stays in ${here}: ${answer.message}`);
        return answer;
      }}
      preview={(answer) => <Facts boxed label="What it would do" facts={[["From", answer.source], ["To", answer.to], ["Tokens written", String(found.in_pool?.row.tokens ?? 0)], ["Its readers", "see a pause; billed once"]]} />}
    >
      {(errorOf) => (
        <NativeSelect label="To pool" description={others.length ? "Where the same model runs." : "No other pool is known."} value={to} error={errorOf("to")} data={[{ value: "", label: "Choose a pool" }, ...others]} onChange={(event) => setTo(event.currentTarget.value)} />
      )}
    </EditDialog>
  );
}
