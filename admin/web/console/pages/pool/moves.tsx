// What a pool's page can move elsewhere: a tenant with its routing, or only requests.

import { Button } from "@mantine/core";
import { useState } from "react";
import { useSession } from "../../../shared/session";
import { useDesired } from "./asked";
import { MoveRequests } from "./move";
import { MoveTenant } from "./move-tenant";
import { tenantsHere, type Listed, type Pool } from "./words";

type Moves = { pool: Pool; pools: readonly Pool[]; requests: readonly Listed[] };

export function PoolMoves({ pool, pools, requests }: Moves) {
  const { may } = useSession();
  const desired = useDesired();
  const [opened, setOpened] = useState<"tenant" | "requests" | "">("");
  const close = () => setOpened("");
  const here = desired.get(pool.pool);
  const tenant = here && may("pools.move");
  const names = [...tenantsHere(requests).map((each) => each.tenant), ...(here?.let_in ?? [])];
  return (
    <>
      {tenant && <Button onClick={() => setOpened("tenant")}>Move tenant…</Button>}
      {may("requests.migrate_all") && <Button variant={tenant ? "default" : "filled"} onClick={() => setOpened("requests")}>Move requests…</Button>}
      {opened === "tenant" && here && <MoveTenant from={here} pools={[...desired.values()]} tenants={[...new Set(names)]} onClose={close} />}
      {opened === "requests" && <MoveRequests from={pool} pools={pools} requests={requests} onClose={close} />}
    </>
  );
}
