// Who reads a request that has not ended, as its gateways tell now: how far, what is unacknowledged, since when slow.

import { useQuery } from "@tanstack/react-query";
import { DataTable } from "../../shared/components/data-table";
import { Section } from "../../shared/components/section";
import { StateShape, type StateName } from "../../shared/components/state";
import { api, answered, type Schemas } from "../../shared/api";
import { count, lasting, moment } from "../../shared/format";
import { LIVE_MS } from "../../shared/live";
import { useSession } from "../../shared/session";

type Reader = Schemas["ReaderFacts"];
const SHAPES: Record<string, StateName> = { reading: "well", paused: "warn", stuck: "warn" };

export function Readers({ live, request, tenant }: { live: Schemas["RequestDetail"]; request: string; tenant: string }) {
  const { may } = useSession();
  const { data } = useQuery({
    queryKey: ["request", "shown", request, tenant],
    queryFn: () => answered(api.GET("/api/requests/{request}", { params: { path: { request }, query: { tenant, pool: live.row.pool } } })),
    enabled: may("requests.show"),
    refetchInterval: LIVE_MS,
    retry: false,
  });
  const readers = data?.readers ?? [];
  const gateways = Object.entries(live.readers);
  const silent = gateways.filter(([gateway]) => !readers.some((each) => each.gateway === gateway));
  const slow = readers.filter((each) => each.state !== "reading").length;
  const note = readers.length ? `${count(readers.length)} ${readers.length === 1 ? "reads" : "read"} it${slow ? `, ${count(slow)} slowly` : ""}` : "";
  return (
    <Section title="Readers" note={note}>
      {readers.length > 0 && <Table readers={readers} nowMs={data?.request.now_ms ?? live.now_ms} />}
      {readers.length === 0 && gateways.length === 0 && <p className="readers-note soft">Nobody reads it now. What is written is kept: whoever comes back goes on where they were.</p>}
      {silent.map(([gateway, state]) => <p className="readers-note soft" key={gateway}>Gateway {gateway} said last that its readers are {state}; it tells nothing more now.</p>)}
      {live.row.status === "parked" && <p className="readers-note warn">All its readers are stuck{live.parked_ms ? `, so it is parked since ${moment(new Date(live.parked_ms))}` : ""}: it goes on once one of them reads.</p>}
      {data && data.came_from.length > 0 && <p className="readers-note soft">It came from {data.came_from.join(", then ")}.</p>}
    </Section>
  );
}

function Table({ readers, nowMs }: { readers: readonly Reader[]; nowMs: number }) {
  return (
    <DataTable label="Readers" rows={readers} keyOf={(each) => each.connection} columns={[
      { title: "Client", cell: (each) => <span title={`connection ${each.connection}, session ${each.session}, ${each.protocol}`}><b>{each.client || "unnamed client"}</b> <span className="soft">{each.connection.slice(-6)}</span></span> },
      { title: "Gateway", cell: (each) => each.gateway },
      { title: "State", phone: "end", cell: (each) => <span className="state-word"><StateShape state={SHAPES[each.state] ?? "unknown"} /> {slowness(each, nowMs)}</span> },
      { title: "Behind, entries", number: true, cell: (each) => count(each.behind) },
      { title: "Unacknowledged", number: true, cell: (each) => `${count(each.unacked_events)} of ${count(each.window_events)}` },
      { title: "Bytes", number: true, cell: (each) => `${count(each.unacked_bytes)} of ${count(each.window_bytes)}` },
      { title: "Connected for", number: true, cell: (each) => lasting((nowMs - each.since_ms) / 1000) },
    ]} />
  );
}

function slowness(each: Reader, nowMs: number): string {
  const since = each.stuck_since_ms || each.paused_since_ms;
  return since ? `${each.state} for ${lasting((nowMs - since) / 1000)}` : each.state;
}
