// Who was refused in the month, and by whose limit.

import { Link } from "@tanstack/react-router";
import { DataTable, type Column } from "../../../shared/components/data-table";
import { Section } from "../../../shared/components/section";
import { Unanswered } from "../../../shared/components/unanswered";
import { answered, api, type Schemas } from "../../../shared/api";
import { count } from "../../../shared/format";
import { useLive } from "../../../shared/live";
import { dayAndTime } from "../../../shared/zoned";
import { useSession } from "../../../shared/session";
import { monthName } from "./months";
import "./refused.css";

type Refusals = Schemas["MonthRefusals"];
type Limit = Refusals["limits"][number];
type Row = { status?: number; limit: string; of?: Limit; whose?: string; refused: number; last?: string };

const EVERY_MS = 30_000;
const WHOSE: Record<Limit["whose"], string> = { yours: "yours", plan: "your plan’s", platform: "Parley’s" };

export function RefusedSection({ tenant, month }: { tenant: string; month?: string | undefined }) {
  const query = month ? { month } : {};
  const asked = useLive(["spend.refusals", tenant, query], () => answered(api.GET("/api/tenants/{tenant}/spend/refusals", { params: { path: { tenant }, query } })), EVERY_MS);
  return <Section title="Who was refused, and by whose limit?">{asked.data ? <Refused found={asked.data} open={!month} /> : <Unanswered asked={asked} />}</Section>;
}

function Refused({ found, open }: { found: Refusals; open: boolean }) {
  const since = open ? `since 1 ${monthName(found.month)}` : `of ${monthName(found.month)}`;
  if (!found.refused) return <p className="soft">{found.requests ? `None of ${count(found.requests)} requests ${since}.` : `Nobody sent a request ${since}.`}</p>;
  const rows: Row[] = found.limits.map((each) => ({ status: each.status, limit: each.limit, of: each, whose: WHOSE[each.whose], refused: each.refused, ...(each.last ? { last: lastOf(each.last, found.time_zone) } : {}) }));
  if (found.more) rows.push({ limit: `Other ${count(found.more)} limits`, refused: found.others });
  return (
    <>
      <p className="soft refused-lead">{count(found.refused)} of {count(found.requests)} requests {since}. A refused request costs nothing.</p>
      <div className="refused-by"><DataTable label="Refused, by limit" columns={COLUMNS} rows={rows} keyOf={(row) => `${row.status} ${row.limit} ${row.of?.of}`} foot={{ limit: "", refused: found.refused }} /></div>
    </>
  );
}

const COLUMNS: Column<Row>[] = [
  { title: "Code", cell: (row) => (row.status ? <span className={`refused-code code-${row.status}`}>{row.status}</span> : row.limit ? "" : "All") },
  { title: "Limit", cell: (row) => (row.of ? <ToRefused limit={row.of} /> : row.limit && <span className="soft">{row.limit}</span>) },
  { title: "Whose", cell: (row) => row.whose ?? "" },
  { title: "Refused", number: true, phone: "end", cell: (row) => count(row.refused) },
  { title: "Last", right: true, cell: (row) => row.last && <span className="soft nowrap">{row.last}</span> },
];

const lastOf = (at: string, zone: string) => {
  const [day, time] = dayAndTime(Date.parse(at), zone);
  return `${day} ${time.slice(0, 5)}`;
};

/** The limit, as a link to those that it refused where the member may see them. */
function ToRefused({ limit }: { limit: Limit }) {
  const { may } = useSession();
  if (!may("requests.find_refused")) return <bdi>{limit.limit}</bdi>;
  const whose = limit.of && limit.of !== "*" && ["key", "user"].includes(limit.scope) ? { [limit.scope]: limit.of } : {};
  return <Link className="refused-limit" to="/requests" search={{ state: "refused", code: limit.code, since: "30d", ...whose }}><bdi>{limit.limit}</bdi></Link>;
}
