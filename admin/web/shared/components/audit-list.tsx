// Who changed what of a tenant, and why: newest first.

import { Called } from "./called";
import { DataTable, type Column } from "./data-table";
import { LoadMore, usePages } from "./load-more";
import { Section } from "./section";
import { Unanswered } from "./unanswered";
import { api, answered, type Schemas } from "../api";
import { beginnings, differences, doneOf, shortened } from "../changes";
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
  { title: "Who", phone: "end", cell: (row) => (row.names[row.author] ? <Called id={row.author} name={row.names[row.author]} /> : <bdi title={row.author}>{shortened(row.author)}</bdi>) },
  { title: "What", cell: (row) => <What row={row} /> },
  { title: "Why", cell: (row) => (reasonOf(row) ? <span className="soft">“{reasonOf(row)}”</span> : "") },
];

function AuditList({ tenant }: { tenant: string }) {
  const zone = useZone();
  const { items, more, asked } = usePages<Row>(["audit", tenant], (after) => answered(api.GET("/api/audit", { params: { query: { tenant, after, limit: 20 } } })));
  return (
    <Section title="Audit" note="the newest first">
      {items ? (items.length ? <DataTable label="Audit" columns={columnsIn(zone)} rows={items} keyOf={(row) => `${row.tenant} ${row.seq}`} /> : <p className="soft">Nothing was changed yet.</p>) : <Unanswered asked={asked} />}
      <LoadMore more={more} what="changes" />
    </Section>
  );
}

/** What was done to which thing, and of an edit what it changed. */
function What({ row }: { row: Row }) {
  const changed = row.before ? differences(row.before, row.after, row.names) : beginnings(row.after);
  return <>{doneOf(row.action)} {row.target && row.target !== row.tenant && <Called id={row.target} name={row.names[row.target]} />} <span className="soft">{changed}</span></>;
}

function reasonOf(row: Row): string {
  const why = (row.after as Record<string, unknown> | null)?.["reason"];
  return typeof why === "string" && !why.startsWith("sha256:") ? why : "";
}
