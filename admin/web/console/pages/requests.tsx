// Requests: those that run, those that ended, and sends that were refused, by filters in the URL.

import { Button } from "@mantine/core";
import { Link, useNavigate, useSearch } from "@tanstack/react-router";
import { useState, type ReactNode } from "react";
import { LoadMore } from "../../shared/components/load-more";
import { StateShape } from "../../shared/components/state";
import { clock, count, decimal, moment, money, NOBODY_KNOWS, type Money } from "../../shared/format";
import { useFreshness } from "../../shared/freshness";
import { useSession } from "../../shared/session";
import { sentence } from "../../shared/words";
import { endWord, liveWord, type Word } from "../request-words";
import { LIVE_MAX, useEndedRequests, useLiveRequests, usePools, useRefusedSends, type EndedRow, type LiveRow } from "../requests-data";
import { filterOf, isFiltered, isWhose, leavesOutLive, shortId, type ListState, type RequestsFilter } from "../requests-filter";
import { beside, RequestFilters } from "../requests-filters";
import { RefusedTable } from "./requests-refused";
import "./requests.css";

const LISTED_MAX = 10_000;
const LEFT = { outcome: "outcome", code: "code", until: "end" };

export function RequestsPage() {
  const { may } = useSession();
  const filter = useSearch({ from: "/requests" });
  const navigate = useNavigate();
  const pools = usePools();
  const [limit, setLimit] = useState(LIVE_MAX);
  const states = statesFor(may);
  const state = states.includes(filter.state ?? "all") ? (filter.state ?? "all") : (states[0] ?? "all");
  const live = useLiveRequests(filter, state === "all" || state === "live", limit);
  const ended = useEndedRequests(filter, state === "all" || state === "ended");
  const refused = useRefusedSends(filter, state === "refused");
  const pages = state === "refused" ? refused : ended;
  const stale = useFreshness(state === "live" ? live.updatedAt : pages.updatedAt);
  const change = (changed: object) => void navigate({ to: "/requests", search: (was) => filterOf({ ...was, ...changed }) });
  const [endedRows, refusedRows] = [ended.items ?? [], refused.items ?? []];
  const over = new Set(endedRows.map((row) => `${row.tenant} ${row.id}`));
  const running = state === "refused" ? [] : live.rows.filter((row) => isWhose(row, filter) && !over.has(`${row.tenant} ${row.id}`));
  const problem = pages.error ?? live.problem;
  const shown = state === "refused" ? refusedRows.length : running.length + (state === "live" ? 0 : endedRows.length);
  const loading = (state === "live" ? live.loading : pages.loading) && !problem;
  const more = state === "live" ? { has: live.more && limit < LISTED_MAX, busy: false, load: () => setLimit((was) => Math.min(LISTED_MAX, was * 4)) } : pages.more;
  const left = state === "all" ? leavesOutLive(filter) : [];
  return (
    <>
      <h1 className="unseen">Requests</h1>
      <div className="requests-head">
        <RequestFilters filter={{ ...filter, ...(state === "all" ? {} : { state }) }} states={states} pools={pools ?? []} problem={problem} change={change} />
        <p className="requests-count soft tabular" role="status">{loading || problem ? "" : countText(shown, more.has, state, endedRows)}</p>
      </div>
      {problem && !beside(problem.field) && <p className="requests-note bad" role="alert">{sentence(problem.detail)}</p>}
      {left.length > 0 && <p className="requests-note soft">Requests that run are left out: their {left.map((name) => LEFT[name]).join(" and ")} is known once they end.</p>}
      {state === "all" && live.more && <p className="requests-note soft">More run than are shown here: “Live” shows them all.</p>}
      <div className={stale ? "stale" : ""}>
        {loading ? <span className="skeleton rows" role="status" aria-label="Loading" /> : shown === 0 && !more.has ? (
          !problem && <Nothing filter={filter} state={state} change={change} />
        ) : state === "refused" ? <RefusedTable rows={refusedRows} /> : (
          <RequestsTable live={running} ended={state === "live" ? [] : endedRows} nowMs={live.nowMs} />
        )}
      </div>
      {more.has && shown === 0 && <p className="requests-note soft" role="status">None of those looked at so far fits. There are older ones.</p>}
      <LoadMore more={more} what="requests" />
    </>
  );
}

function statesFor(may: (operation: string) => boolean): ListState[] {
  const [lists, finds] = [may("requests.list"), may("requests.find")];
  return [...(lists && finds ? ["all" as const] : []), ...(lists ? ["live" as const] : []), ...(finds ? ["ended" as const] : []), ...(may("requests.find_refused") ? ["refused" as const] : [])];
}

function countText(shown: number, more: boolean, state: ListState, ended: readonly EndedRow[]): string {
  const [one, many] = state === "refused" ? ["minute", "minutes"] : ["request", "requests"];
  const said = `${more ? "first " : ""}${count(shown)} ${shown === 1 ? one : many}`;
  const failed = state === "refused" || state === "live" ? 0 : ended.filter((row) => row.reason === "error").length;
  return failed ? `${said}, ${count(failed)} failed` : said;
}

function Nothing({ filter, state, change }: { filter: RequestsFilter; state: ListState; change: (changed: object) => void }) {
  const navigate = useNavigate();
  if (state === "live" && !isFiltered(filter)) return <div className="empty"><h2>No request runs now</h2><p>Those that ended are under “Ended”.</p></div>;
  const clear = () => void navigate({ to: "/requests", search: filter.state ? { state: filter.state } : {} });
  return (
    <div className="empty">
      <h2>{isFiltered(filter) ? "No request matches" : "No request yet today"}</h2>
      <p>{state === "live" ? "Nothing that runs now fits the filters." : isFiltered(filter) ? "Nothing of this time fits the filters. Without a time, the last 24 hours are looked at." : "Nobody has sent one in the last 24 hours. A first one: parley chat."}</p>
      <p className="empty-buttons">
        {isFiltered(filter) && <Button variant="default" onClick={clear}>Clear filters</Button>}
        {state !== "live" && filter.since !== "7d" && <Button variant="default" onClick={() => change({ since: "7d", until: undefined })}>Last 7 days</Button>}
      </p>
    </div>
  );
}

function RequestsTable({ live, ended, nowMs }: { live: readonly LiveRow[]; ended: readonly EndedRow[]; nowMs: number }) {
  return (
    <table className="table requests">
      <thead>
        <tr>
          <th scope="col">Accepted</th><th scope="col">Request</th><th scope="col">State</th><th scope="col">Tenant</th><th scope="col">User</th><th scope="col" className="wide-only">Model</th><th scope="col">Pool</th>
          <th scope="col" className="number wide-only">First token, s</th><th scope="col" className="number">Took, s</th><th scope="col" className="number">In, tokens</th><th scope="col" className="number">Out, tokens</th><th scope="col" className="number">Cost, USD</th>
        </tr>
      </thead>
      <tbody>
        {live.map((row) => <Row key={`${row.tenant} ${row.id}`} row={liveFacts(row, nowMs)} />)}
        {ended.map((row) => <Row key={`${row.tenant} ${row.id}`} row={endedFacts(row)} />)}
      </tbody>
    </table>
  );
}

type Facts = { id: string; tenant: string; tenantName: string; acceptedMs: number; word: Word; user: string; model: string; pool: string; first: number | null; took: number; input: number; output: number; cost: Money | null };

function liveFacts(row: LiveRow, nowMs: number): Facts {
  const first = row.first_token_ms ? row.first_token_ms - row.accepted_ms : null;
  return { id: row.id, tenant: row.tenant, tenantName: row.tenant_name, acceptedMs: row.accepted_ms, word: liveWord(row.status, row.first_token_ms), user: row.user || NOBODY_KNOWS, model: row.model, pool: row.pool, first, took: Math.max(0, nowMs - row.accepted_ms), input: row.prompt_tokens, output: row.tokens, cost: null };
}

function endedFacts(row: EndedRow): Facts {
  const cost = { nano: String(BigInt(row.cost.nano) + BigInt(row.corrected.nano)), currency: row.cost.currency };
  return { id: row.id, tenant: row.tenant, tenantName: row.tenant_name, acceptedMs: row.accepted_ms, word: endWord(row.reason, row.code), user: row.user || NOBODY_KNOWS, model: row.model, pool: row.pool, first: row.first_token_after_ms, took: row.took_ms, input: row.input_uncached + row.input_cached, output: row.output_text + row.output_reasoning, cost };
}

function Row({ row }: { row: Facts }) {
  return (
    <tr>
      <td className="tabular"><time dateTime={new Date(row.acceptedMs).toISOString()} title={moment(new Date(row.acceptedMs))}>{sameDay(row.acceptedMs) ? clock(new Date(row.acceptedMs)) : moment(new Date(row.acceptedMs)).slice(5, 16)}</time></td>
      <td className="lead"><RequestLink id={row.id} tenant={row.tenant}><b>{shortId(row.id)}</b></RequestLink></td>
      <td className="end"><StateWord word={row.word} /></td>
      <td className="clip" title={row.tenantName}>{row.tenantName}</td>
      <td className="clip" title={row.user}>{row.user}</td>
      <td className="clip wide-only" title={row.model}>{row.model}</td>
      <td className="clip" title={row.pool}>{row.pool}</td>
      <td className="number wide-only">{row.first === null ? NOBODY_KNOWS : decimal(row.first / 1000)}</td>
      <td className="number">{decimal(row.took / 1000, 1)}</td>
      <td className="number">{count(row.input)}</td>
      <td className="number">{count(row.output)}</td>
      <td className="number">{money(row.cost, 9)}</td>
      <td className="phone-line soft tabular">{[row.tenantName, row.user === NOBODY_KNOWS ? "" : row.user, row.pool, `${decimal(row.took / 1000, 1)} s`, `${count(row.output)} out`, row.cost ? `${money(row.cost, 9)} USD` : ""].filter(Boolean).join(" · ")}</td>
    </tr>
  );
}

const sameDay = (ms: number) => new Date(ms).toISOString().slice(0, 10) === new Date().toISOString().slice(0, 10);

export function StateWord({ word }: { word: Word }) {
  return <span className="state-word"><StateShape state={word.shape} /> {word.word}</span>;
}

/** A link to one request's page. Its tenant is named, since several can have a request of one id. */
export function RequestLink({ id, tenant, children }: { id: string; tenant: string; children: ReactNode }) {
  return <Link to="/requests/$request" params={{ request: id }} search={tenant ? { tenant } : {}} title={id}>{children}</Link>;
}
