// Who reads a request that has not ended, from the requests.show of its pool: gateways, and where it came from.

import { useQuery } from "@tanstack/react-query";
import { DataTable } from "../../shared/components/data-table";
import { Section } from "../../shared/components/section";
import { StateShape } from "../../shared/components/state";
import { api, answered, type Schemas } from "../../shared/api";
import { count, moment } from "../../shared/format";
import { useSession } from "../../shared/session";

export function Readers({ live, request, tenant }: { live: Schemas["RequestDetail"]; request: string; tenant: string }) {
  const { may } = useSession();
  const { data } = useQuery({
    queryKey: ["request", "shown", request, tenant, live.row.status, live.row.worker],
    queryFn: () => answered(api.GET("/api/requests/{request}", { params: { path: { request }, query: { tenant, pool: live.row.pool } } })),
    enabled: may("requests.show"),
    retry: false,
  });
  const readers = Object.entries(live.readers);
  const stuck = readers.filter(([, state]) => state === "stuck").length;
  const note = readers.length ? `${count(readers.length)} ${readers.length === 1 ? "gateway" : "gateways"}${stuck ? `, ${count(stuck)} stuck` : ""}` : "";
  return (
    <Section title="Readers" note={note}>
      {readers.length ? (
        <DataTable label="Readers" rows={readers} keyOf={([gateway]) => gateway} columns={[
          { title: "Gateway", cell: ([gateway]) => <b>{gateway}</b> },
          { title: "State", phone: "end", cell: ([, state]) => <span className="state-word"><StateShape state={state === "stuck" ? "warn" : "well"} /> {state}</span> },
        ]} />
      ) : <p className="soft">Nobody reads it now. What is written is kept: whoever comes back goes on where they were.</p>}
      {live.row.status === "parked" && <p className="warn">All its readers are stuck{live.parked_ms ? ` since ${moment(new Date(live.parked_ms))}` : ""}: it goes on once one of them reads.</p>}
      {data && data.came_from.length > 0 && <p className="soft">It came from {data.came_from.join(", then ")}.</p>}
    </Section>
  );
}
