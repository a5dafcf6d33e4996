// The dearest requests of a day, or of a group of it, and what all others cost: exact, nothing rounded.

import { keepPreviousData, useQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { answered, api, type Problem, type Schemas } from "../../../shared/api";
import { Exact } from "../../../shared/components/exact";
import { Section } from "../../../shared/components/section";
import { Unanswered } from "../../../shared/components/unanswered";
import { count } from "../../../shared/format";
import { shortId } from "../../../shared/requests/filter";
import { dayAndTime } from "../../../shared/zoned";
import { useSession } from "../../../shared/session";
import { FACET_WORDS, nextShown, type ChargeFacet, type ExplainSearch } from "./search";
import type { Day } from "./words";

type Found = Schemas["DearestRequests"];
type Request = Schemas["DearRequestFacts"];
const FIRST = 8;
const LOADING = <span className="skeleton explain-rows" role="status" aria-label="Loading" />;

export function Dearest({ tenant, day, search }: { tenant: string; day: Day; search: ExplainSearch }) {
  const { may } = useSession();
  const by = day.by as ChargeFacet;
  const limit = search.show ?? FIRST;
  const query = { day: day.time.name, by, limit, ...(search.of === undefined ? {} : { of: search.of }) };
  const asked = useQuery<Found, Problem>({
    queryKey: ["charges", "requests", tenant, query],
    queryFn: () => answered(api.GET("/api/tenants/{tenant}/charges/requests", { params: { path: { tenant }, query } })),
    placeholderData: keepPreviousData,
    retry: false,
    enabled: may("charges.requests"),
  });
  const { data } = asked;
  if (!data) return <Section title="Request by request"><Unanswered asked={asked} loading={LOADING} /></Section>;
  const name = data.of === null ? "" : data.name || `Of no ${FACET_WORDS[by].one}`;
  const title = name ? `${name}, request by request` : "Request by request";
  const shown = data.items.length;
  const note = shown < data.requests ? `The ${count(shown)} dearest of ${count(data.requests)}.` : `All ${count(data.requests)}, the dearest first.`;
  const more = nextShown(limit);
  return (
    <Section title={title} note={shown ? `${note} Here amounts are exact: nine decimals, nothing rounded.` : undefined} end={data.of !== null && <Link to="/explain" search={{ day: day.time.name, by }}>All of the day</Link>}>
      {shown ? <Requests found={data} name={name} day={day} /> : <p className="soft">No request ended {name ? "of it " : ""}on this day.</p>}
      {more && shown < data.requests && shown === limit && <p className="load-more"><Link to="/explain" search={{ ...search, day: day.time.name, show: more }} resetScroll={false}>Show the {more} dearest</Link></p>}
    </Section>
  );
}

function Requests({ found, name, day }: { found: Found; name: string; day: Day }) {
  const foot = (label: string, amount: Found["total"], className: string, bold = true) => (
    <tr className={className}><td colSpan={8}>{label}</td><td className="number end" data-label="Amount"><Exact amount={amount} bold={bold} /></td></tr>
  );
  return (
    <table className="table data-table explain-requests" aria-label="Request by request">
      <thead><tr>
        <th scope="col">Time</th><th scope="col">Request</th><th scope="col" className="narrow-hide">User</th><th scope="col">Model</th><th scope="col">Ended</th>
        <th scope="col" className="number">Input</th><th scope="col" className="number narrow-hide">From cache</th><th scope="col" className="number">Output</th><th scope="col" className="number">Amount</th>
      </tr></thead>
      <tbody>{found.items.map((each) => <Row key={each.request} request={each} zone={day.time_zone} />)}</tbody>
      <tfoot>
        {foot(`${count(found.items.length)} shown`, found.shown, "")}
        {(found.more > 0 || found.others.nano !== "0") && foot(found.more > 0 ? `The other ${count(found.more)}` : "Pool time and corrections", found.others, "explain-rounding", false)}
        {foot(name ? `${name}, the day` : "The day", found.total, "")}
      </tfoot>
    </table>
  );
}

function Row({ request: each, zone }: { request: Request; zone: string }) {
  const { may } = useSession();
  const [, time] = dayAndTime(each.ended_ms, zone);
  const id = <code title={each.request}>{shortId(each.request)}</code>;
  return (
    <tr>
      <td><time dateTime={new Date(each.ended_ms).toISOString()} title={`${dayAndTime(each.ended_ms, zone).join(" ")} ${zone}`}>{time}</time></td>
      <td data-label="">{may("charges.explain") ? <Link to="/requests/$request" params={{ request: each.request }}>{id}</Link> : id}</td>
      <td className="narrow-hide" data-label="User"><bdi>{each.user || "–"}</bdi></td>
      <td data-label="Model">{each.model}</td>
      <td data-label="Ended">{each.code || each.reason}</td>
      <td className="number" data-label="Input">{count(each.input_uncached + each.input_cached)}</td>
      <td className="number narrow-hide" data-label="From cache">{count(each.input_cached)}</td>
      <td className="number" data-label="Output">{count(each.output_text + each.output_reasoning)}</td>
      <td className="number end" data-label="Amount"><Exact amount={each.cost} /></td>
    </tr>
  );
}
