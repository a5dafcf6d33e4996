// Moving requests of a pool to another, without their tenants' routing: what would move, then how far it is.

import { NativeSelect } from "@mantine/core";
import { useState } from "react";
import { EditDialog, terms } from "../../../shared/components/edit-dialog";
import { Facts, type Fact } from "../../../shared/components/facts";
import { RunProgress } from "../../../shared/components/run-progress";
import { api, answered, type Schemas } from "../../../shared/api";
import { Misfits, previewFacts } from "./move-tenant";
import { buttonOf, type Preview } from "./move-words";
import { tenantsHere, type Listed, type Pool } from "./words";

type Move = { from: Pool; pools: readonly Pool[]; requests: readonly Listed[]; onClose: () => void };

export function MoveRequests({ from, pools, requests, onClose }: Move) {
  const targets = pools.filter((each) => each.pool !== from.pool && each.model === from.model);
  const [to, setTo] = useState(targets[0]?.pool ?? "");
  const [tenant, setTenant] = useState("");
  const [would, setWould] = useState<{ of: string; preview: Preview | null } | null>(null);
  const typed = to ? JSON.stringify({ to, tenant }) : "";
  return (
    <EditDialog
      title={`Move requests of ${from.pool}`}
      save={buttonOf(would?.of === typed ? would.preview : null, "Move requests")}
      note="It goes on at the token that it had reached."
      onClose={onClose}
      typed={typed}
      send={async (how) => {
        const answer = await answered(api.POST("/api/requests/migrate", { params: terms(how), body: { pool: from.pool, to, tenant: tenant || null, reason: how.reason } }));
        if (how.dryRun) setWould({ of: typed, preview: (answer as Schemas["MigratedPool"]).preview ?? null });
        return answer;
      }}
      preview={(answer) => "preview" in answer && answer.preview && <div className="move-preview"><Facts boxed label="What moves" facts={factsOf(answer.preview, from.pool, to)} /><Misfits preview={answer.preview} to={to} /></div>}
      closes="Close"
      saved={(answer) => ("run" in answer ? <RunProgress run={answer.run} /> : undefined)}
    >
      {(errorOf) => (
        <>
          <NativeSelect label="Whose" value={tenant} onChange={(event) => setTenant(event.currentTarget.value)} data={[{ value: "", label: "everybody's" }, ...tenantsHere(requests).map((each) => each.tenant)]} error={errorOf("tenant")} />
          <NativeSelect label="To" description={targets.length ? "Pools that run the same model." : `No other pool runs ${from.model || "its model"}.`} value={to} onChange={(event) => setTo(event.currentTarget.value)} data={targets.map((each) => each.pool)} disabled={!targets.length} error={errorOf("to")} data-autofocus />
        </>
      )}
    </EditDialog>
  );
}

function factsOf(preview: Preview, from: string, to: string): Fact[] {
  return [...previewFacts(preview, to), ["New requests", `are routed as before; those that reach ${from} meanwhile move, too`]];
}
