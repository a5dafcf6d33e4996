// One request: how it went in a sentence, its life as a waterfall, its bill, its limits, who and from where.

import { useQuery } from "@tanstack/react-query";
import { Link, useParams, useSearch } from "@tanstack/react-router";
import { type ReactNode } from "react";
import { CopyButton } from "../../shared/components/command";
import { DataTable } from "../../shared/components/data-table";
import { Facts, type Fact } from "../../shared/components/facts";
import { Section } from "../../shared/components/section";
import { Sentence } from "../../shared/components/sentence";
import { api, answered, type Problem, type Schemas } from "../../shared/api";
import { count, decimal, moment, money, NOBODY_KNOWS, type Money } from "../../shared/format";
import { useFreshness } from "../../shared/freshness";
import { LIVE_MS } from "../../shared/live";
import { useSession } from "../../shared/session";
import { sentence } from "../../shared/words";
import { bookedLife, endedSentence, liveLife, liveSentence, span } from "../../shared/requests/life";
import { METERS } from "../../shared/requests/words";
import { shortId } from "../../shared/requests/filter";
import { Waterfall } from "../../shared/requests/waterfall";
import { RequestActions } from "./request-actions";
import { Limits } from "./request-limits";
import { Readers } from "./request-readers";
import "./request.css";

export type Explained = Schemas["Explained"];
type Booked = Schemas["BookedRequest"];

/** Everything known of a request but its texts: asked again while it may still change. */
function useExplained(request: string, tenant: string | undefined, enabled: boolean) {
  return useQuery<Explained, Problem>({
    queryKey: ["request", request, tenant ?? null],
    queryFn: () => answered(api.GET("/api/requests/{request}/explained", { params: { path: { request }, query: tenant ? { tenant } : {} } })),
    refetchInterval: (query) => (query.state.data?.booked || query.state.data?.state === "refused" ? false : LIVE_MS),
    enabled,
    retry: false,
  });
}

export function RequestPage() {
  const { request } = useParams({ from: "/requests/$request" });
  const { tenant } = useSearch({ from: "/requests/$request" });
  const { may } = useSession();
  const { data, error, dataUpdatedAt } = useExplained(request, tenant, may("requests.explain"));
  const stale = useFreshness(data && !data.booked ? dataUpdatedAt : 0);
  if (!may("requests.explain")) return <Sentence state="unknown" text="Your role may not open a request." detail="Somebody who handles requests can." />;
  if (!data) return error ? <NotKnown problem={error} request={request} /> : <Loading />;
  const { booked, in_pool: live } = data;
  return (
    <div className={stale ? "stale" : ""}>
      <div className="request-head">
        <header role="group" aria-label="Verdict">
          <h1>{headline(data)}</h1>
          <p className="soft request-who"><Who found={data} /></p>
        </header>
        <RequestActions found={data} />
      </div>
      {data.unread && <p className="request-unread warn" role="status">{sentence(data.unread)}</p>}
      {(booked || live) && <Section title="Its life" note={booked ? "" : "so far"}><Waterfall life={booked ? bookedLife(booked) : liveLife(live as Schemas["RequestDetail"])} /></Section>}
      <div className="request-columns">
        <div>
          {live && <Readers live={live} request={request} tenant={data.tenant} />}
          {booked && <Bill booked={booked} />}
          {data.held_back.length > 0 && <HeldBack found={data} />}
          {data.refused.length > 0 && <Refused found={data} />}
          <Limits found={data} />
        </div>
        <div>
          <Section title="Who, and from where"><div className="request-ids"><Facts facts={whoFacts(data)} label="Who, and from where" /></div></Section>
          {booked && <Section title="Speed"><Facts facts={speedFacts(booked)} label="Speed" /></Section>}
          {data.holds?.state === "open" && <Section title="Held now"><Facts facts={heldFacts(data.holds)} label="Held now" /></Section>}
          {booked?.policy && <Section title="Safety"><Facts facts={safetyFacts(booked)} label="Safety" /></Section>}
        </div>
      </div>
    </div>
  );
}

function headline(found: Explained): string {
  if (found.booked) return endedSentence(found.booked);
  if (found.in_pool) return liveSentence(found.in_pool);
  if (found.state === "held_back") return "Ended, and held back from the books: somebody must decide.";
  if (found.refused.length) return `Refused: ${[...new Set(found.refused.map((each) => each.code))].join(", ")}.`;
  return `${sentence(found.state)}`;
}

function Who({ found }: { found: Explained }) {
  const { may } = useSession();
  const { booked, in_pool: live, holds } = found;
  const accepted = booked?.steps[0]?.at_ms ?? live?.row.accepted_ms ?? holds?.admitted_ms;
  const key = booked?.key ?? holds?.key;
  const name = (id: string) => found.names[id] ?? shortId(id);
  const user = booked?.user || name(booked?.user_id ?? holds?.user_id ?? "");
  const rest = [user, key ? `key ${name(key)}` : "", booked?.model ?? live?.row.model ?? holds?.model, booked?.priority ?? live?.row.priority, accepted ? `accepted ${moment(new Date(accepted))}` : ""];
  return <><span className="request-id">{found.id}</span> · {may("tenants.show") ? <Link to="/tenants/$tenant" params={{ tenant: found.tenant_name }}>{found.tenant_name}</Link> : found.tenant_name}{rest.filter(Boolean).map((each) => ` · ${each}`)}</>;
}

function Bill({ booked }: { booked: Booked }) {
  const { price, lines } = booked;
  const book = price.book_name || price.book;
  const notes = [`price book ${book}, version ${price.version}`, Object.keys(price.tiers).length ? `by tiers at the month's close: ${Object.keys(price.tiers).join(", ")}` : ""];
  return (
    <Section title="Bill" note={<span title={price.why}>{notes.filter(Boolean).join("; ")}</span>}>
      <DataTable
        label="Bill"
        rows={lines}
        keyOf={(line) => String(line.line)}
        columns={[
          { title: "Line", cell: (line) => <>{METERS[line.meter] ?? line.meter}{line.kind !== "usage" && <span className="soft"> {line.kind}{line.cause && `, ${line.cause}`}</span>}</> },
          { title: "Quantity", number: true, cell: (line) => count(line.quantity) },
          { title: "Price, USD per million", number: true, cell: (line) => (line.meter === "request" ? `${money(perOne(line.price), 9)} each` : money(line.price, 9)) },
          { title: "Amount, USD", number: true, phone: "end", cell: (line) => money(line.amount, 9) },
        ]}
      />
      <p className="bill-total"><b>Total</b> <b className="number">{money(booked.amount, 9)}</b></p>
      {booked.amount.nano !== booked.cost.nano && <p className="note">Before corrections it was {money(booked.cost, 9)} USD.</p>}
      {booked.recomputed_tokens > 0 && <p className="note">{count(booked.recomputed_tokens)} tokens were computed again after a move or a lost worker: they are not billed.</p>}
    </Section>
  );
}

const perOne = (price: Money): Money => ({ ...price, nano: String(BigInt(price.nano) / 1_000_000n) });

function HeldBack({ found }: { found: Explained }) {
  return (
    <Section title="Held back from the books">
      <DataTable label="Held back" rows={found.held_back} keyOf={(each) => each.event_sha256} columns={[
        { title: "Since", cell: (each) => moment(new Date(each.since_ms)) },
        { title: "Reason", cell: (each) => <b>{each.reason}</b> },
        { title: "Detail", cell: (each) => each.detail },
        { title: "Decided", phone: "end", cell: (each) => each.resolution || <span className="warn">not yet</span> },
      ]} />
    </Section>
  );
}

function Refused({ found }: { found: Explained }) {
  return (
    <Section title="Refused" note="by the minute">
      <DataTable label="Refused" rows={found.refused} keyOf={(each) => `${each.minute_ms} ${each.code}`} columns={[
        { title: "Minute", cell: (each) => moment(new Date(each.minute_ms)).slice(0, 16) },
        { title: "Code", phone: "end", cell: (each) => <b>{each.code}</b> },
        { title: "Why", cell: (each) => each.why },
        { title: "Like it", number: true, cell: (each) => count(each.number) },
      ]} />
    </Section>
  );
}

function whoFacts({ booked, holds, in_pool: live, tenant, tenant_name, names }: Explained): Fact[] {
  const named = (what: string, id: string | undefined, name?: string) => id && <Named id={id} name={name || names[id]} what={what} />;
  const facts: [string, ReactNode][] = [
    ["Trace", booked?.trace_id && <><code>{booked.trace_id}</code> <CopyButton text={booked.trace_id} of="the trace's id" /></>],
    ["Tenant", named("tenant", tenant, tenant_name)],
    ["Project", named("project", booked?.project ?? holds?.project)],
    ["User", named("user", booked ? booked.user_id : holds?.user_id, booked?.user)],
    ["Key", named("key", booked?.key ?? holds?.key)],
    ["Pool", booked?.pool ?? live?.row.pool ?? holds?.pool],
    ["Worker", live?.row.worker],
    ["Claims", booked ? count(booked.claims) : live ? count(live.row.claims) : undefined],
    ["Must end by", live?.row.deadline_ms ? moment(new Date(live.row.deadline_ms)) : undefined],
  ];
  const months: Fact[] = (booked?.months ?? []).map((month) => [`Month ${month.month}`, `${money(month.amount, 9)}${month.closed_ms ? ", closed" : ", open"}`]);
  const paid: Fact[] = (booked?.paid ?? []).map((each) => [`Paid by ${each.kind || "a grant"}`, money(each.amount, 9)]);
  const owed: Fact[] = booked?.owed && booked.owed.nano !== "0" ? [["Owed", <span className="warn">{money(booked.owed, 9)}</span>]] : [];
  return [...facts.filter(([, value]) => value).map(([name, value]): Fact => [name, value]), ...paid, ...owed, ...months];
}

/** A name, else the ends of an id: the whole id is its title, and can be copied. */
function Named({ id, name, what }: { id: string; name: string | undefined; what: string }) {
  return <><span title={id}>{name ?? shortId(id)}</span> <CopyButton text={id} of={`the ${what}'s id`} /></>;
}

function speedFacts(booked: Booked): Fact[] {
  const at = (name: string) => booked.steps.find((step) => step.name === name)?.at_ms ?? 0;
  const [accepted, first, ended] = [at("accepted"), at("first token"), at("ended")];
  const tokens = booked.output_text + booked.output_reasoning;
  return [
    ["First token", first ? span(first - accepted) : NOBODY_KNOWS],
    ["Between tokens, mean", first && tokens > 1 ? `${decimal((ended - first) / (tokens - 1), 0)} ms` : NOBODY_KNOWS],
    ["Output", `${count(tokens)} tokens`],
  ];
}

function heldFacts(holds: Schemas["HeldRequest"]): Fact[] {
  return [["Of each budget, USD", money(holds.held, 9)], ["Input", `${count(holds.input_tokens)} tokens`], ["Output allowed so far", `${count(holds.granted)} tokens`]];
}

function safetyFacts(booked: Booked): Fact[] {
  const verdicts = Object.entries(booked.verdicts).map(([category, by]) => `${category}: ${Object.entries(by).map(([action, number]) => `${action} ${count(number)}`).join(", ")}`);
  return [["Policy", <code title={booked.policy}>{booked.policy.slice(0, 12)}</code>], ["Verdicts", verdicts.join("; ") || "nothing found"]];
}

function NotKnown({ problem, request }: { problem: Problem; request: string }) {
  return <Sentence state="unknown" text={problem.status === 404 ? "Nobody knows this request." : problem.field === "tenant" ? "Several tenants have a request of this id." : "It could not be read."} detail={problem.status === 404 ? `${request}: it never came here, or it is too long ago.` : sentence(problem.detail)} />;
}

function Loading() {
  return <div aria-busy="true" aria-label="Loading" role="status"><span className="skeleton request-title" /><span className="skeleton request-rows" /></div>;
}
