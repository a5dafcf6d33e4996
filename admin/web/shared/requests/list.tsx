// The list of requests: those that run, those that ended, and sends that were refused. The console shows all tenants', a
// portal its own.

import { Button } from "@mantine/core";
import { useState, type ComponentType, type ReactNode } from "react";
import { LoadMore } from "../components/load-more";
import { Failed, useFailure } from "../components/unanswered";
import { count } from "../format";
import { useFreshness } from "../freshness";
import { useSession } from "../session";
import { LIVE_MAX, useEndedRequests, useLiveRequests, usePools, useRefusedSends, type EndedRow } from "./data";
import { isFiltered, isWhose, leavesOutLive, type ListState, type RequestsFilter } from "./filter";
import { beside, RequestFilters } from "./filters";
import { RefusedTable } from "./refused";
import { RequestsTable } from "./table";
import "./requests.css";

const LISTED_MAX = 10_000;
const LEFT = { outcome: "outcome", code: "code", until: "end" };

/** A link to one request's page. Its tenant is named, since several can have a request of one id. */
export type RequestLink = ComponentType<{ id: string; tenant: string; children: ReactNode }>;

/** Where the list stands. `own`: the projects, by id, of the one tenant whose requests these are; null: they are of all
 * tenants. `zone`: of times. `first`: what to do where nobody has sent one yet. */
export type ListPlace = { Link: RequestLink; own: ReadonlyMap<string, string> | null; zone: string; first: string };

type Props = ListPlace & { filter: RequestsFilter; change: (changed: object) => void; clear: () => void };

export function RequestsList({ filter, change, clear, ...place }: Props) {
  const { may } = useSession();
  const pools = usePools();
  const [limit, setLimit] = useState(LIVE_MAX);
  const states = statesFor(may);
  const state = states.includes(filter.state ?? "all") ? (filter.state ?? "all") : (states[0] ?? "all");
  const live = useLiveRequests(filter, state === "all" || state === "live", limit);
  const ended = useEndedRequests(filter, state === "all" || state === "ended");
  const refused = useRefusedSends(filter, state === "refused");
  const pages = state === "refused" ? refused : ended;
  const stale = useFreshness(state === "live" ? live.updatedAt : pages.updatedAt);
  const [endedRows, refusedRows] = [ended.items ?? [], refused.items ?? []];
  const over = new Set(endedRows.map((row) => `${row.tenant} ${row.id}`));
  const running = state === "refused" ? [] : live.rows.filter((row) => isWhose(row, filter) && !over.has(`${row.tenant} ${row.id}`));
  const [ofPages, ofLive] = [useFailure(pages.asked), useFailure(live.asked)];
  const problem = ofPages ?? pages.error ?? ofLive ?? live.problem;
  const shown = state === "refused" ? refusedRows.length : running.length + (state === "live" ? 0 : endedRows.length);
  const loading = (state === "live" ? live.loading : pages.loading) && !problem;
  const more = state === "live" ? { has: live.more && limit < LISTED_MAX, busy: false, load: () => setLimit((was) => Math.min(LISTED_MAX, was * 4)) } : pages.more;
  const left = state === "all" ? leavesOutLive(filter) : [];
  return (
    <>
      <div className="requests-head">
        <RequestFilters filter={{ ...filter, ...(state === "all" ? {} : { state }) }} states={states} pools={pools ?? []} projects={place.own} problem={problem} change={change} />
        <p className="requests-count soft tabular" role="status">{loading || problem ? "" : countText(shown, more.has, state, endedRows)}</p>
      </div>
      {problem && !beside(problem.field) && <div className="requests-note"><Failed problem={problem} ask={() => void Promise.all([pages.asked.refetch(), live.asked.refetch()])} /></div>}
      {left.length > 0 && <p className="requests-note soft">Requests that run are left out: their {left.map((name) => LEFT[name]).join(" and ")} is known once they end.</p>}
      {state === "all" && live.more && <p className="requests-note soft">More run than are shown here: “Live” shows them all.</p>}
      <div className={stale ? "stale" : ""}>
        {loading ? <span className="skeleton rows" role="status" aria-label="Loading" /> : shown === 0 && !more.has ? (
          !problem && <Nothing filter={filter} state={state} first={place.first} change={change} clear={clear} />
        ) : state === "refused" ? <RefusedTable rows={refusedRows} {...place} /> : (
          <RequestsTable live={running} ended={state === "live" ? [] : endedRows} nowMs={live.nowMs} {...place} />
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

type NothingProps = { filter: RequestsFilter; state: ListState; first: string; change: (changed: object) => void; clear: () => void };

function Nothing({ filter, state, first, change, clear }: NothingProps) {
  if (state === "live" && !isFiltered(filter)) return <div className="empty"><h2>No request runs now</h2><p>Those that ended are under “Ended”.</p></div>;
  return (
    <div className="empty">
      <h2>{isFiltered(filter) ? "No request matches" : state === "refused" ? "No request was refused" : "No request yet today"}</h2>
      <p>{state === "live" ? "Nothing that runs now fits the filters." : isFiltered(filter) ? "Nothing of this time fits the filters. Without a time, the last 24 hours are looked at." : state === "refused" ? "None in the last 24 hours. A refused request costs nothing." : `Nobody has sent one in the last 24 hours. ${first}`}</p>
      <p className="empty-buttons">
        {isFiltered(filter) && <Button variant="default" onClick={clear}>Clear filters</Button>}
        {state !== "live" && filter.since !== "7d" && <Button variant="default" onClick={() => change({ since: "7d", until: undefined })}>Last 7 days</Button>}
      </p>
    </div>
  );
}
