// A tenant's connections: those that are open and what they read, and why the last ones ended.

import { NativeSelect } from "@mantine/core";
import { getRouteApi } from "@tanstack/react-router";
import { DataTable, type Column } from "../../../shared/components/data-table";
import { LoadMore, usePages } from "../../../shared/components/load-more";
import { Section } from "../../../shared/components/section";
import { StateShape } from "../../../shared/components/state";
import { api, answered, type Schemas } from "../../../shared/api";
import { ago, count, moment, NOBODY_KNOWS } from "../../../shared/format";
import { useSession } from "../../../shared/session";
import { sentence } from "../../../shared/words";
import { endOf } from "./end-words";
import { useScrollTo } from "./scroll-to";

type Connection = Schemas["ListedConnection"];
type Page = Schemas["ConnectionPage"];
const route = getRouteApi("/tenants/$tenant");
const ASKED_EVERY_MS = 10_000;

export function Connections({ tenant }: { tenant: string }) {
  const { may } = useSession();
  return may("connections.list") ? <ConnectionList tenant={tenant} /> : null;
}

const COLUMNS: Column<Connection>[] = [
  { title: "User", cell: (row) => <><b>{row.user || NOBODY_KNOWS}</b> <span className="soft">{row.client}</span></> },
  { title: "Key", cell: (row) => row.key_name },
  { title: "State", phone: "end", cell: (row) => <Ended of={row} /> },
  { title: "Reads", number: true, cell: (row) => (row.state === "open" ? count(row.reads) : "") },
  { title: "Not acknowledged, B", number: true, cell: (row) => (row.unacked_bytes ? count(row.unacked_bytes) : "") },
  { title: "Opened", number: true, cell: (row) => <When at={row.since} /> },
  { title: "Ended", number: true, cell: (row) => (row.ended ? <When at={row.ended} /> : "") },
];

function ConnectionList({ tenant }: { tenant: string }) {
  const { connections: state } = route.useSearch();
  const ask = (after: string): Promise<Page> => answered(api.GET("/api/tenants/{tenant}/connections", { params: { path: { tenant }, query: { after, limit: 20, ...(state ? { state } : {}) } } }));
  const { items, error, more } = usePages<Connection>(["connections", tenant, state], ask, ASKED_EVERY_MS);
  useScrollTo("connections", items !== undefined);
  return (
    <div id="connections" className="linked">
      <Section title="Connections" note="the last opened first; ended ones of a day" end={<Choice state={state} />}>
        {items ? (items.length ? <DataTable label="Connections" columns={COLUMNS} rows={items} keyOf={(row) => row.connection} /> : <p className="soft">{nothing(state)}</p>) : error ? <p className="soft">{sentence(error.detail)}</p> : <span className="skeleton" />}
        <LoadMore more={more} what="connections" />
      </Section>
    </div>
  );
}

const nothing = (state: string | undefined) => (state === "open" ? "None is open now." : state === "ended" ? "None ended within a day." : "None is open, and none ended within a day.");

function Choice({ state }: { state: "open" | "ended" | undefined }) {
  const navigate = route.useNavigate();
  const set = (given: string) => void navigate({ search: ({ connections: _, ...old }) => ({ ...old, ...(given ? { connections: given as "open" } : {}) }), hash: "connections" });
  return (
    <span className="statement-choices">
      <NativeSelect size="xs" aria-label="Connections that are" value={state ?? ""} onChange={(event) => set(event.currentTarget.value)} data={[{ value: "", label: "open and ended" }, { value: "open", label: "open" }, { value: "ended", label: "ended" }]} />
    </span>
  );
}

/** Whether it is open, or how it ended; of an open one also why the one before it in its session did. */
function Ended({ of }: { of: Connection }) {
  if (of.state === "open") {
    const before = of.before ? endOf(of.before.cause).words : "";
    return <span className="state"><StateShape state="well" /> open{before && <span className="soft"> · before: {before}</span>}</span>;
  }
  const { state, words } = endOf(of.cause);
  return <span className="state" title={of.code ? `close code ${of.code}` : "no close frame came"}><StateShape state={state} /> {words}</span>;
}

const When = ({ at }: { at: string | null }) => (at ? <time dateTime={at} title={moment(at)} className="nowrap">{ago(at)}</time> : <>{NOBODY_KNOWS}</>);
