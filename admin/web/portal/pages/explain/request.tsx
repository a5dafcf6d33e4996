// One request: what it was charged, line by line, why at this price, whose it is, what it held, how long it took.

import { useQuery } from "@tanstack/react-query";
import { Link, useParams } from "@tanstack/react-router";
import type { ReactNode } from "react";
import { answered, api, type Problem } from "../../../shared/api";
import { CopyButton } from "../../../shared/components/command";
import { DataTable } from "../../../shared/components/data-table";
import { Exact } from "../../../shared/components/exact";
import { Section } from "../../../shared/components/section";
import { Failed, useFailure } from "../../../shared/components/unanswered";
import { count } from "../../../shared/format";
import { LIVE_MS } from "../../../shared/live";
import { shortId } from "../../../shared/requests/filter";
import { bookedLife, span } from "../../../shared/requests/life";
import { Waterfall } from "../../../shared/requests/waterfall";
import { refusalWhy } from "../../../shared/requests/words";
import { useSession } from "../../../shared/session";
import { sentence } from "../../../shared/words";
import { OldFigures } from "../../old-figures";
import { useTenant } from "../../tenant";
import { CopyPlain } from "./copy-plain";
import { classOf, endedText, moment, monthText, priceText, STATES, zoneText, type Booked, type Charge } from "./charge-words";
import "../../../shared/components/data-table.css";
import "./explain.css";
import "./request.css";

function useCharge(tenant: string, request: string, enabled: boolean) {
  return useQuery<Charge, Problem>({
    queryKey: ["charge", tenant, request],
    queryFn: () => answered(api.GET("/api/tenants/{tenant}/charges/requests/{request}", { params: { path: { tenant, request } } })),
    refetchInterval: (query) => (["open", "ended"].includes(query.state.data?.state ?? "") ? LIVE_MS : false),
    retry: false,
    enabled,
  });
}

export function RequestPage() {
  const { request } = useParams({ from: "/requests/$request" });
  const { id } = useTenant();
  const { may } = useSession();
  const asked = useCharge(id, request, may("charges.explain"));
  const { data } = asked;
  const failure = useFailure(asked);
  if (!may("charges.explain")) return <Without title="One request" text="Your role sees requests in their list, with what each cost, and may not open one. An admin of your tenant can." back={<Link to="/requests">To the requests</Link>} />;
  if (failure) return <NotKnown problem={failure} request={request} ask={asked.refetch} />;
  if (!data) return <Loading />;
  const { booked, time_zone: zone } = data;
  const ended = booked?.steps.find((step) => step.name === "ended")?.at_ms ?? Date.now();
  return (
    <>
      <Crumbs charge={data} />
      <div className="explain-head">
        <h1 className="page-title">One request <code className="charge-id">{request}</code></h1>
        <CopyPlain text={request} what="id" />
      </div>
      <p className="meta">Amounts in USD, exact to nine decimals. Times in {zoneText(zone, ended)}.</p>
      <OldFigures />
      {booked ? <><p className="charge-amount" aria-label="Amount" role="group"><Exact amount={booked.amount} /></p><p className="soft">{endedText(booked, zone)}</p></> : <><p className="charge-amount charge-word">{STATES[data.state][0]}</p><p className="soft">{STATES[data.state][1]}</p></>}
      {data.unread && <p className="warn" role="status">{sentence(data.unread)}</p>}
      {booked && <Lines booked={booked} zone={zone} />}
      {data.held_back.length > 0 && <HeldBack charge={data} />}
      {data.refused.length > 0 && <Refused charge={data} />}
      <div className="charge-columns">
        {booked && <Section title="Why this price"><p className="note">The price is fixed when a request is admitted, and stays for all of it.</p><Pairs pairs={pricePairs(data, booked)} /></Section>}
        {data.whose && <Section title="Who and from where"><Pairs pairs={whosePairs(data)} /></Section>}
      </div>
      <Holds charge={data} />
      {booked && <TimeLine booked={booked} />}
    </>
  );
}

function Crumbs({ charge }: { charge: Charge }) {
  const { may } = useSession();
  const { day, whose, request } = charge;
  return (
    <nav aria-label="Where this is" className="crumbs">
      {may("charges.day") && <Link to={"/spend" as "/"}>Spend</Link>}
      {may("charges.day") && day && <><span aria-hidden>/</span><Link to="/explain" search={{ day }}>{day}</Link></>}
      {may("charges.day") && day && whose && <><span aria-hidden>/</span><Link to="/explain" search={{ day, by: "key", of: whose.key }}><bdi>{whose.key_name || whose.key_prefix}</bdi></Link></>}
      {!may("charges.day") && <Link to="/explain">Explain a charge</Link>}
      <span aria-hidden>/</span><span aria-current="page">Request {shortId(request)}</span>
    </nav>
  );
}

function Lines({ booked, zone }: { booked: Booked; zone: string }) {
  const corrected = booked.amount.nano !== booked.cost.nano;
  const book = booked.price.book_name || booked.price.book;
  const used = booked.lines.filter((line) => line.kind === "usage").reduce((sum, line) => sum + (line.meter === "request" ? 0 : line.quantity), 0);
  return (
    <Section title="How the amount is made" note="Each line is tokens times price, rounded once to the nano. The total is the sum of the lines.">
      <table className="table data-table charge-lines" aria-label="How the amount is made">
        <thead><tr><th scope="col">Class</th><th scope="col" className="number">Tokens</th><th scope="col" className="number">Price for 1 M</th><th scope="col">Price version</th><th scope="col" className="number">Amount</th></tr></thead>
        <tbody>
          {booked.lines.map((line) => (
            <tr key={line.line}>
              <td>{classOf(line.meter)}{line.kind !== "usage" && <span className="soft"> · corrected on {moment(line.posted_ms, zone).slice(0, 10)}{line.cause && `: ${line.cause}`}</span>}</td>
              <td className="number" data-label="Tokens">{line.meter === "request" ? "" : count(line.quantity).replace("-", "\u2212")}</td>
              <td className="number" data-label="Price for 1 M">{priceText(line.price, line.meter === "request")}{line.meter === "request" && " each"}</td>
              <td className="soft" data-label="Price version">{booked.price.version} of book {book}</td>
              <td className="number end" data-label="Amount"><Exact amount={line.amount} /></td>
            </tr>
          ))}
        </tbody>
        <tfoot><tr><td>Total</td><td className="number" data-label="Tokens">{corrected ? "" : count(used)}</td><td /><td /><td className="number end" data-label="Amount"><Exact amount={booked.amount} bold /></td></tr></tfoot>
      </table>
      {!booked.lines.length && <p className="soft">It used nothing that is billed.</p>}
      {corrected && <p className="note">Before the corrections it was <Exact amount={booked.cost} />. What was booked is never changed: a correction is a line of its own.</p>}
      {booked.recomputed_tokens > 0 && <p className="note">{count(booked.recomputed_tokens)} tokens were computed again after it moved or a machine was lost: they are not billed.</p>}
    </Section>
  );
}

type Pair = readonly [string, ReactNode];

function pricePairs({ origin, time_zone: zone, booked: of }: Charge, booked: Booked): Pair[] {
  const { price } = booked;
  const accepted = booked.steps.find((step) => step.name === "accepted")?.at_ms;
  const earlier = origin?.earlier;
  const more = earlier && BigInt(earlier.more.nano);
  const size = earlier && { ...earlier.more, nano: String(more && more < 0n ? -more : more) };
  const announced = origin?.announced_ms ? `, announced ${moment(origin.announced_ms, zone).slice(0, 10)}` : "";
  const tiers = Object.keys(price.tiers);
  return [
    ["Price book", `${price.book_name || price.book}, version ${price.version}`],
    ["Valid from", price.from_ms ? `${moment(price.from_ms, zone).slice(0, 16)}${announced}` : price.from_ms === 0 ? `the beginning${announced}` : ""],
    ["Admitted", accepted ? moment(accepted, zone, true) : ""],
    ["Why", sentence(price.why)],
    [earlier ? `Under version ${earlier.version}` : "", earlier && <><Exact amount={earlier.amount} />{more === 0n ? ", the same" : <>, <Exact amount={size} /> {more && more > 0n ? "less" : "more"}</>}</>],
    ["Cache saved", origin?.cache_saved && <Exact amount={origin.cache_saved} />],
    ["Tiers", tiers.length ? `${tiers.map(classOf).join(", ")}: worked out when the month closes` : ""],
    ["Counts in", of ? monthText(booked) : ""],
  ];
}

function whosePairs({ whose, booked, day }: Charge): Pair[] {
  if (!whose) return [];
  const link = (by: "user" | "key" | "project", of: string, name: string) => (of && day ? <DayLink day={day} by={by} of={of}>{name}</DayLink> : name);
  const center = whose.cost_center && `, cost center ${[whose.cost_center, whose.cost_center_name].filter((each, at, all) => each && all.indexOf(each) === at).join(" ")}`;
  return [
    ["User", whose.user_id ? link("user", whose.user_id, whose.user) : "none: it came from a service"],
    ["Key", <>{link("key", whose.key, whose.key_name || whose.key_prefix)} <code className="soft">{whose.key_prefix}</code></>],
    ["Project", <>{link("project", whose.project, whose.project_name)}{center}</>],
    ["Model, pool", booked ? `${booked.model}, ${booked.pool}` : ""],
    ["Priority", booked?.priority ?? ""],
    ["Conversation", whose.conversation && <><code title={whose.conversation}>{shortId(whose.conversation)}</code> <CopyButton text={whose.conversation} of="the conversation's id" /></>],
    ["Trace", booked?.trace_id && <><code>{booked.trace_id}</code> <CopyButton text={booked.trace_id} of="the trace's id" /></>],
  ];
}

function DayLink({ day, by, of, children }: { day: string; by: "user" | "key" | "project"; of: string; children: ReactNode }) {
  const { may } = useSession();
  return may("charges.day") ? <Link to="/explain" search={{ day, by, of }}><bdi>{children}</bdi></Link> : <bdi>{children}</bdi>;
}

/** Pairs in two columns; those without a value are left out. */
function Pairs({ pairs }: { pairs: readonly Pair[] }) {
  return <dl className="pairs">{pairs.filter(([name, value]) => name && value).map(([name, value]) => <div key={name}><dt>{name}</dt><dd>{value}</dd></div>)}</dl>;
}

function Holds({ charge }: { charge: Charge }) {
  const { hold, booked, state } = charge;
  if (!hold && !booked) return null;
  const zone = charge.time_zone;
  const over = state !== "open";
  const note = "A hold is not a charge: it keeps a hard budget from being passed while the answer runs.";
  if (!hold) return <Section title="What was held and what was let go" note={note}><p className="soft">What it held was let go when it ended. Single holds are kept for some days only, and this one's are gone.</p></Section>;
  if (hold.granted === null) return <Section title="What was held and what was let go" note={note}><p className="soft">It held nothing: no budget and no wallet limited it when it was admitted.</p></Section>;
  const ended = booked?.steps.find((step) => step.name === "ended")?.at_ms;
  const rows = [
    { at: hold.admitted_ms, step: `Admitted: input in full and a first part of the output, extended ${over ? "to" : "so far to"} ${count(hold.granted)} tokens of output`, held: over ? hold.most : hold.now, booked: null as ReactNode },
    ...(over ? [{ at: ended ?? 0, step: "Settled: what was used is booked, the rest let go", held: hold.now, booked: booked ? <Exact amount={booked.cost} /> : null }] : []),
  ];
  return (
    <Section title={over ? "What was held and what was let go" : "What it holds"} note={note}>
      <DataTable label="What was held" rows={rows} keyOf={(row) => row.step} columns={[
        { title: "Step", cell: (row) => row.step },
        { title: "Time", cell: (row) => (row.at ? moment(row.at, zone, true).slice(11) : "") },
        { title: "Held after", number: true, phone: "end", cell: (row) => <Exact amount={row.held} /> },
        { title: "Booked", number: true, cell: (row) => row.booked ?? "–" },
      ]} />
    </Section>
  );
}

function TimeLine({ booked }: { booked: Booked }) {
  const life = bookedLife(booked);
  const tokens = booked.output_text + booked.output_reasoning;
  const first = booked.steps.find((step) => step.name === "first token")?.at_ms ?? 0;
  const ended = booked.steps.find((step) => step.name === "ended")?.at_ms ?? 0;
  const speed = first && ended > first && tokens > 1 ? `; ${count(Math.round((tokens * 1000) / (ended - first)))} output tokens a second` : "";
  return <Section title="Time line" note={`${span(life.total)} from admission to the end${speed}.`}><Waterfall life={life} /></Section>;
}

function HeldBack({ charge }: { charge: Charge }) {
  return (
    <Section title="Held back from the ledger">
      <DataTable label="Held back" rows={charge.held_back} keyOf={(each) => each.event_sha256} columns={[
        { title: "Since", cell: (each) => moment(each.since_ms, charge.time_zone) },
        { title: "Why", cell: (each) => sentence(each.detail || each.reason) },
        { title: "Decided", phone: "end", cell: (each) => each.resolution || "not yet" },
      ]} />
    </Section>
  );
}

function Refused({ charge }: { charge: Charge }) {
  return (
    <Section title="Refused" note="A refused request costs nothing.">
      <DataTable label="Refused" rows={charge.refused} keyOf={(each) => `${each.minute_ms} ${each.code}`} columns={[
        { title: "Minute", cell: (each) => moment(each.minute_ms, charge.time_zone).slice(0, 16) },
        { title: "Code", phone: "end", cell: (each) => <b>{each.code}</b> },
        { title: "Whose limit", cell: (each) => refusalWhy(each.why) },
      ]} />
    </Section>
  );
}

function NotKnown({ problem, request, ask }: { problem: Problem; request: string; ask: () => unknown }) {
  if (problem.status === 404) return <Without title="Nobody knows this request" text={`You have no request ${request}. It never came here, or it was refused long ago.`} />;
  return <><h1 className="page-title">It could not be read</h1><div className="lead"><Failed problem={problem} ask={ask} /></div><p className="note"><Link to="/explain">Explain another charge</Link></p></>;
}

function Without({ title, text, back = <Link to="/explain">Explain another charge</Link> }: { title: string; text: string; back?: ReactNode }) {
  return <><h1 className="page-title">{title}</h1><p className="lead" role="alert">{text}</p><p className="note">{back}</p></>;
}

function Loading() {
  return <div aria-busy="true" aria-label="Loading" role="status"><h1 className="page-title">One request</h1><span className="skeleton explain-lead" /><span className="skeleton explain-rows" /></div>;
}
