// Who changed what of a tenant, and why: newest first.

import { useQuery } from "@tanstack/react-query";
import { DataTable, type Column } from "./data-table";
import { LoadMore, usePages } from "./load-more";
import { Section } from "./section";
import { api, answered, type Schemas } from "../api";
import { differences, shortened } from "../changes";
import { ago, NOBODY_KNOWS } from "../format";
import { useSession } from "../session";
import { useZone, type Zone } from "../zone";
import { zonedSecond } from "../zoned";

type Row = Schemas["AuditFacts"];

export function Audit({ tenant }: { tenant: string }) {
  const { may } = useSession();
  return may("audit.list") ? <AuditList tenant={tenant} /> : null;
}

const columnsIn = ({ name: zone, told }: Zone): Column<Row>[] => [
  { title: told ? `Time, ${told}` : "Time", cell: (row) => (row.at ? <time dateTime={row.at} title={ago(row.at)} className="nowrap tabular">{zonedSecond(row.at, zone)}</time> : NOBODY_KNOWS) },
  { title: "Who", phone: "end", cell: (row) => <Author id={row.author} /> },
  { title: "What", cell: (row) => <><span title={row.target}>{row.action.replace(".", ": ").replaceAll("_", " ")}</span> <span className="soft">{whatOf(row)}</span></> },
  { title: "Why", cell: (row) => (reasonOf(row) ? <span className="soft">“{reasonOf(row)}”</span> : "") },
];

/** Members stand in the log by their id, so that they can be erased; here by their name, while they have one. */
function Author({ id }: { id: string }) {
  const { me, may } = useSession();
  const tenant = me.tenant ?? "";
  const { data } = useQuery({
    queryKey: ["members' names", tenant],
    queryFn: () => answered(api.GET("/api/people", { params: { query: { tenant, limit: 1000 } } })),
    enabled: tenant !== "" && may("people.list"),
    staleTime: 60_000,
  });
  const person = data?.items.find((each) => each.person === id);
  return person ? <bdi>{person.name}</bdi> : <span title={id}>{shortened(id)}</span>;
}

function AuditList({ tenant }: { tenant: string }) {
  const zone = useZone();
  const { items, error, more } = usePages<Row>(["audit", tenant], (after) => answered(api.GET("/api/audit", { params: { query: { tenant, after, limit: 20 } } })));
  return (
    <Section title="Audit" note="the newest first">
      {items ? (items.length ? <DataTable label="Audit" columns={columnsIn(zone)} rows={items} keyOf={(row) => `${row.tenant} ${row.seq}`} /> : <p className="soft">Nothing was changed yet.</p>) : error ? <p className="soft">{error.detail}</p> : <span className="skeleton" />}
      <LoadMore more={more} what="changes" />
    </Section>
  );
}

/** What an edit changed; of other changes what they were made to, shortened where it is an id. */
function whatOf(row: Row): string {
  const changed = row.before ? differences(row.before, row.after) : "";
  return changed || shortened(row.target);
}

function reasonOf(row: Row): string {
  const why = (row.after as Record<string, unknown> | null)?.["reason"];
  return typeof why === "string" && !why.startsWith("sha256:") ? why : "";
}
