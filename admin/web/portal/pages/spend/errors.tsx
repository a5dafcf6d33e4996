// Requests of the month that ended in an error: how, how many, and what was billed of them.

import { Link } from "@tanstack/react-router";
import { DataTable, type Column } from "../../../shared/components/data-table";
import { Section } from "../../../shared/components/section";
import { answered, api, type Schemas } from "../../../shared/api";
import { count, money, percent } from "../../../shared/format";
import { useLive } from "../../../shared/live";
import { filterOf } from "../../../shared/requests/filter";
import { endWord } from "../../../shared/requests/words";
import { useSession } from "../../../shared/session";
import { sentence } from "../../../shared/words";
import { zonedMinute } from "../../../shared/zoned";
import { monthName } from "./months";
import { isFineSum } from "./where-words";
import { monthAfter } from "./words";
import "./refused.css";

type Errors = Schemas["MonthErrors"];
type Way = Errors["ways"][number];
type Row = { way?: Way; ended: string; requests: number; cost?: Way["cost"] };

const EVERY_MS = 30_000;

export function ErrorsSection({ tenant, month }: { tenant: string; month?: string | undefined }) {
  const query = month ? { month } : {};
  const { data, error } = useLive(["spend.errors", tenant, query], () => answered(api.GET("/api/tenants/{tenant}/spend/errors", { params: { path: { tenant }, query } })), EVERY_MS);
  return <Section title="What ended in an error, and what did it cost?">{data ? <Failed found={data} open={!month} /> : error ? <p className="bad" role="alert">{sentence(error.detail)}</p> : <span className="skeleton" />}</Section>;
}

function Failed({ found, open }: { found: Errors; open: boolean }) {
  const since = open ? `since 1 ${monthName(found.month)}` : `of ${monthName(found.month)}`;
  if (!found.errors) return <p className="soft">{found.requests ? `None of ${count(found.requests)} requests that ended ${since}.` : `No request ended ${since}.`}</p>;
  const rows: Row[] = found.ways.map((way) => ({ way, ended: endWord(way.reason).said, requests: way.requests, cost: way.cost }));
  if (found.more) rows.push({ ended: `Other ${count(found.more)} ways`, requests: found.others });
  return (
    <>
      <p className="soft refused-lead">{count(found.errors)} of {count(found.requests)} requests that ended {since}, {percent(found.errors / found.requests)} %. What they used until then is billed: {billed(found)(found.cost)}. What was computed again after a fault is not.</p>
      <DataTable label="Ended in an error" columns={columnsOf(found, open)} rows={rows} keyOf={(row) => `${row.ended} ${row.way?.code}`} foot={{ ended: "All", requests: found.errors, cost: found.cost }} />
    </>
  );
}

const columnsOf = (found: Errors, open: boolean): Column<Row>[] => [
  { title: "Ended", cell: (row) => (row.way ? <ToRequests way={row.way} month={found.month} open={open}>{row.ended}</ToRequests> : row.ended) },
  { title: "Code", cell: (row) => row.way?.code && <code>{row.way.code}</code> },
  { title: "By", cell: (row) => row.way && causeOf(row.way) },
  { title: "Requests", number: true, phone: "end", cell: (row) => count(row.requests) },
  { title: "Of all, %", number: true, cell: (row) => percent(row.requests / found.requests) },
  { title: "Billed", number: true, cell: (row) => (row.cost ? billed(found)(row.cost) : "") },
  { title: "Last", right: true, cell: (row) => row.way?.last && <span className="soft nowrap">{zonedMinute(row.way.last, found.time_zone)}</span> },
];

/** Amounts as cells have them: cents, of a sum that is small all nine decimals, so that nothing reads as nothing. */
const billed = (found: Errors) => (amount: Way["cost"]) => money(amount, isFineSum(found.cost) ? 9 : 2);

const CAUSES: Record<string, string> = { deadline: "its deadline", budget: "a budget of yours", slow_reader: "its reader", blocked: "a safety rule" };

/** What ended it: a fault of Parley's, or something of the tenant's. */
const causeOf = (way: Way) => CAUSES[way.reason] ?? (way.code === "bad_request" ? "the request" : "a fault of Parley’s");

/** How it ended, as a link to those requests where the member may see them. */
function ToRequests({ way, month, open, children }: { way: Way; month: string; open: boolean; children: string }) {
  const { may } = useSession();
  if (!may("requests.find")) return <>{children}</>;
  const search = filterOf({ state: "ended", outcome: way.reason, ...(way.reason === "error" && way.code ? { code: way.code } : {}), since: `${month}-01`, ...(open ? {} : { until: `${monthAfter(month, 1)}-01` }) });
  return <Link className="refused-limit" to="/requests" search={search}>{children}</Link>;
}
