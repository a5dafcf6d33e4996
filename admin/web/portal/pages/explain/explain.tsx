// A day or a month explained: its groups by what each added, then the dearest requests of one. Each step is a link.

import { Button, TextInput } from "@mantine/core";
import { keepPreviousData, useQuery } from "@tanstack/react-query";
import { Link, useNavigate, useSearch } from "@tanstack/react-router";
import { ChevronLeft, ChevronRight } from "lucide-react";
import type { FormEvent } from "react";
import { answered, api, type Problem } from "../../../shared/api";
import { Failed, useFailure } from "../../../shared/components/unanswered";
import { count } from "../../../shared/format";
import { dayAndTime } from "../../../shared/zoned";
import { useSession } from "../../../shared/session";
import { OldFigures } from "../../old-figures";
import { useTenant } from "../../tenant";
import { CopyPlain } from "./copy-plain";
import { Dearest } from "./dearest";
import { DayGroups } from "./groups";
import type { ExplainSearch } from "./search";
import { beside, during, isMonth, lead, monthName, type Day } from "./words";
import "../../../shared/components/data-table.css";
import "./explain.css";

const MANY = 20;

/** What a day or month cost, by groups. */
function useDay(tenant: string, search: ExplainSearch, enabled: boolean) {
  const { day, month, by, of } = search;
  const query = { ...(day ? { day } : {}), ...(month ? { month } : {}), ...(by ? { by } : {}), ...(of === undefined ? {} : { of }), limit: MANY };
  return useQuery<Day, Problem>({
    queryKey: ["charges", tenant, query],
    queryFn: () => answered(api.GET("/api/tenants/{tenant}/charges", { params: { path: { tenant }, query } })),
    placeholderData: keepPreviousData,
    retry: false,
    enabled,
  });
}

export function ExplainPage() {
  const search = useSearch({ from: "/explain" });
  const { id } = useTenant();
  const { may } = useSession();
  const asked = useDay(id, search, may("charges.day"));
  const { data, isPlaceholderData } = asked;
  const failure = useFailure(asked);
  if (!may("charges.day")) return <><h1 className="page-title">Explain a charge</h1><p className="lead">Your role sees what a request was charged, and not what a day cost.</p><OneRequest /></>;
  if (failure) return <NoDay problem={failure} ask={asked.refetch} />;
  if (!data) return <Loading />;
  const month = isMonth(data);
  return (
    <div className={isPlaceholderData ? "stale" : ""} aria-busy={isPlaceholderData}>
      <Crumbs day={data} />
      <div className="explain-head">
        <div className="explain-title">
          <h1 className="page-title">Explain <span className="nowrap">{month ? monthName(data.time.name) : data.time.name}</span></h1>
          <Beside day={data} />
        </div>
        <CopyPlain text={location.href} what="link" />
      </div>
      <p className="meta">Amounts in USD. {during(data, (iso) => dayAndTime(Date.parse(iso), data.time_zone)[1].slice(0, 5))}. {count(data.total.requests)} {data.total.requests === 1 ? "request" : "requests"}.{month && data.closed && " The month is closed: it does not change any more."}</p>
      <OldFigures />
      <p className="lead">{lead(data).map(({ text, bold }, index) => (bold ? <b key={index}>{text}</b> : text))}</p>
      <DayGroups day={data} search={search} />
      {!month && <Dearest tenant={id} day={data} search={search} />}
      {month && <p className="note explain-month">Requests are told day by day: <Link to="/explain" search={{ month: data.time.name, by: "day" }}>the days of this month</Link>.</p>}
      <OneRequest />
    </div>
  );
}

function Crumbs({ day }: { day: Day }) {
  const name = day.time.name;
  return (
    <nav aria-label="Where this is" className="crumbs">
      <Link to={"/spend" as "/"}>Spend</Link>
      {!isMonth(day) && <><span aria-hidden>/</span><Link to="/explain" search={{ month: name.slice(0, 7) }}>{monthName(name.slice(0, 7))}</Link></>}
      <span aria-hidden>/</span><span aria-current="page">{isMonth(day) ? monthName(name) : name}</span>
    </nav>
  );
}

/** The day or month before, and the next one where it is here. */
function Beside({ day }: { day: Day }) {
  const search = useSearch({ from: "/explain" });
  const what = isMonth(day) ? "month" : "day";
  const at = (by: number): ExplainSearch => ({ ...(search.by ? { by: search.by } : {}), ...(search.of !== undefined ? { of: search.of } : {}), [what]: beside(day.time.name, by) }) as ExplainSearch;
  return (
    <span className="explain-beside">
      <Link to="/explain" search={at(-1)} className="plain explain-step" aria-label={`The ${what} before`}><ChevronLeft size={16} aria-hidden /></Link>
      {day.over && <Link to="/explain" search={at(1)} className="plain explain-step" aria-label={`The next ${what}`}><ChevronRight size={16} aria-hidden /></Link>}
    </span>
  );
}

/** A field for the id of one request. */
function OneRequest() {
  const navigate = useNavigate();
  const { may } = useSession();
  if (!may("charges.explain")) return null;
  const open = (event: FormEvent<HTMLFormElement>) => {
    event.preventDefault();
    const id = String(new FormData(event.currentTarget).get("request") ?? "").trim();
    if (id) void navigate({ to: "/requests/$request", params: { request: id } });
  };
  return (
    <form className="section explain-one" onSubmit={open} aria-label="One request">
      <TextInput name="request" label="Or one request, by its id" placeholder="019a74c1-5b0e-7c3a-9f42-6d1e0b7a2c58" maxLength={100} spellCheck={false} autoComplete="off" />
      <Button type="submit" variant="default">Explain</Button>
    </form>
  );
}

function NoDay({ problem, ask }: { problem: Problem; ask: () => unknown }) {
  return (
    <>
      <h1 className="page-title">Explain a charge</h1>
      <div className="lead"><Failed problem={problem} ask={ask} /></div>
      <p className="note"><Link to="/explain">To yesterday</Link></p>
      <OneRequest />
    </>
  );
}

function Loading() {
  return <div aria-busy="true" aria-label="Loading" role="status"><h1 className="page-title">Explain a charge</h1><span className="skeleton explain-lead" /><span className="skeleton explain-rows" /></div>;
}
