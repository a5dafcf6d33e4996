// Moving requests of a pool to another: what would move and what room there is, then how far it is.

import { NativeSelect } from "@mantine/core";
import { useState } from "react";
import { EditDialog, terms } from "../../../shared/components/edit-dialog";
import { Facts, type Fact } from "../../../shared/components/facts";
import { RunProgress } from "../../../shared/components/run-progress";
import { api, answered } from "../../../shared/api";
import { count, percent } from "../../../shared/format";
import { REQUESTS_MAX } from "./asked";
import { tenantsHere, type Listed, type Pool } from "./words";

type Move = { from: Pool; pools: readonly Pool[]; requests: readonly Listed[]; onClose: () => void };

export function MoveRequests({ from, pools, requests, onClose }: Move) {
  const targets = pools.filter((each) => each.pool !== from.pool && each.model === from.model);
  const [to, setTo] = useState(targets[0]?.pool ?? "");
  const [tenant, setTenant] = useState("");
  const its = requests.filter((each) => !tenant || (each.tenant_name || each.tenant) === tenant);
  const target = pools.find((each) => each.pool === to);
  const many = its.length >= REQUESTS_MAX ? `${count(REQUESTS_MAX)} and more` : count(its.length);
  return (
    <EditDialog
      title={`Move requests of ${from.pool}`}
      save={its.length === 1 ? "Move 1 request" : `Move ${many} requests`}
      note="It goes on at the token that it had reached."
      onClose={onClose}
      typed={to && its.length ? JSON.stringify({ to, tenant }) : ""}
      send={(how) => answered(api.POST("/api/requests/migrate", { params: terms(how), body: { pool: from.pool, to, tenant: tenant || null, reason: how.reason } }))}
      preview={() => target && <Facts boxed label="What moves" facts={factsOf(its, from, target)} />}
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

function factsOf(requests: readonly Listed[], from: Pool, to: Pool): Fact[] {
  const running = requests.filter((each) => each.status === "running").length;
  const free = Math.max(0, to.slots - to.running);
  const tokens = requests.reduce((sum, each) => sum + each.prompt_tokens + each.tokens, 0);
  return [
    ["Running, each with a short pause", count(running)],
    ["Others, which keep their age", count(requests.length - running)],
    [`Room in ${to.pool}`, running > free ? <b key="room" className="warn">{count(free)} free of {count(to.slots)}: {count(running - free)} wait there</b> : `${count(free)} free of ${count(to.slots)}, ${count(free - running)} after it`],
    [`KV in use in ${to.pool}`, `${percent(to.kv)} %`],
    ["Recomputed, not billed", `up to ${count(tokens)} tokens`],
    ["New requests", `are routed as before; those that reach ${from.pool} meanwhile move, too`],
  ];
}
