// A month by two facts at once, for those who charge it to others: what is shown is the report.

import { Button, NativeSelect, TextInput } from "@mantine/core";
import { keepPreviousData, useQuery } from "@tanstack/react-query";
import { getRouteApi, Link } from "@tanstack/react-router";
import { useState } from "react";
import { api, answered, type Problem, type Schemas } from "../../../shared/api";
import { DataTable, type Column } from "../../../shared/components/data-table";
import { Section } from "../../../shared/components/section";
import { Unanswered, type Question } from "../../../shared/components/unanswered";
import { money } from "../../../shared/format";
import { useSession } from "../../../shared/session";
import { OldFigures } from "../../old-figures";
import { useZone } from "../../../shared/zone";
import { zonedDay } from "../../../shared/zoned";
import { useTenant } from "../../tenant";
import { MailDialog, SentByMail } from "./by-mail";
import { ExportDialog } from "./export";
import { Matrix } from "./matrix";
import { FACTS, TAG, type Fact, type ReportSearch } from "./search";
import { Tags, useTags } from "./tags";
import { monthChoice, monthName, type Report } from "./words";
import "./chargeback.css";

type Month = Schemas["ChargebackMonth"];
const route = getRouteApi("/chargeback");
const SLOWLY = 30_000; // reports are read, not watched

export function ChargebackPage() {
  const { id } = useTenant();
  const search = route.useSearch();
  const { may } = useSession();
  const tagsAsked = useTags();
  const tags = tagsAsked.data?.items;
  const [open, setOpen] = useState<"export" | "mail" | null>(null);
  const path = { tenant: id };
  const asked = useQuery<Report, Problem>({
    queryKey: ["chargeback", id, search],
    queryFn: () => answered(api.GET("/api/tenants/{tenant}/chargeback", { params: { path, query: search } })),
    placeholderData: keepPreviousData,
    refetchInterval: SLOWLY,
    retry: false,
  });
  const report = asked.data;
  const monthsAsked = useQuery({
    queryKey: ["chargeback-months", id],
    queryFn: () => answered(api.GET("/api/tenants/{tenant}/chargeback/months", { params: { path } })),
    refetchInterval: SLOWLY,
    retry: false,
  });
  const months = monthsAsked.data?.items;
  return (
    <>
      <div className="report-head">
        <h1 className="page-title">Chargeback</h1>
        <span className="report-actions">{report && may("chargeback.schedule") && <Button variant="default" onClick={() => setOpen("mail")}>Send by mail</Button>}{report && may("chargeback.export") && <Button onClick={() => setOpen("export")}>Export</Button>}</span>
      </div>
      <p className="meta">{report ? <>Amounts in USD. Days are those of {report.time_zone}.{stateOf(report)}</> : "Amounts in USD."}</p>
      <OldFigures />
      <Section title="Report" note="Rows and columns are any two of what usage is of; tags are keys your requests may carry.">
        <Choices report={report} months={months ?? []} tags={[...new Set(tags?.map(({ key }) => key))]} />
        {report?.lacks && <p className="soft">The month was closed without: {report.lacks}</p>}
        {report ? <Shown report={report} /> : <Unanswered asked={asked} loading={<Loading />} />}
      </Section>
      <div className="report-beside">
        {may("chargeback.schedules") && <SentByMail />}
        <Months months={months} asked={monthsAsked} />
      </div>
      {may("tags.list") && <Tags asked={tagsAsked} />}
      {open === "mail" && report && <MailDialog report={report} onClose={() => setOpen(null)} />}
      {open === "export" && report && <ExportDialog report={report} asOf={search.as_of} onClose={() => setOpen(null)} />}
    </>
  );
}

function stateOf(report: Report): string {
  const name = monthName(report.month);
  const state = report.closed ? `was closed on ${zonedDay(report.closed, report.time_zone)}` : "is open: it can still change";
  return report.as_of ? ` As the books stood at the beginning of ${zonedDay(report.as_of, report.time_zone)}.` : ` ${name} ${state}.`;
}

function Shown({ report }: { report: Report }) {
  return report.lines.length ? <Matrix report={report} /> : <p className="soft report-nothing">Nothing was used or charged in {monthName(report.month)}{report.as_of ? " by then" : ""}.</p>;
}

const Loading = () => <div className="report-loading" aria-hidden>{[90, 70, 80, 60].map((width) => <span key={width} className="skeleton" style={{ width: `${width}%` }} />)}</div>;

function Choices({ report, months, tags }: { report: Report | undefined; months: readonly Month[]; tags: readonly string[] }) {
  const navigate = route.useNavigate();
  const search = route.useSearch();
  const set = (given: Partial<Record<keyof ReportSearch, string | undefined>>) => void navigate({ search: (old) => withoutEmpty({ ...old, ...given }) });
  const { rows, columns } = { rows: report?.rows ?? "cost_center", columns: report?.columns ?? "model", ...search };
  const now = months[0]?.month ?? "";
  const shown = search.month ?? report?.month ?? now;
  const known = search.only && !tags.includes(search.only) ? [...tags, search.only] : tags;
  const choices = [...CHOICES, ...tags.map((key) => ({ value: `${TAG}${key}`, label: `Tag ${key}` }))];
  const listed = months.some(({ month }) => month === shown) || !shown ? months : [...months, { month: shown, closed: report?.closed ?? null }];
  const choose = (side: "rows" | "columns", value: Fact) => set(value === (side === "rows" ? columns : rows) ? { rows: columns, columns: rows } : { [side]: value });
  return (
    <div className="report-choices">
      <NativeSelect label="Month" value={shown} onChange={(event) => set({ month: event.currentTarget.value })} data={listed.map((each) => ({ value: each.month, label: monthChoice(each as Month, now) }))} />
      <AsOf day={search.as_of} set={(day) => set({ as_of: day })} />
      <NativeSelect label="Rows" value={rows} onChange={(event) => choose("rows", event.currentTarget.value)} data={choices} />
      <NativeSelect label="Columns" value={columns} onChange={(event) => choose("columns", event.currentTarget.value)} data={choices} />
      {known.length > 0 && <NativeSelect label="Only with tag" value={search.only ?? ""} onChange={(event) => set({ only: event.currentTarget.value || undefined })} data={[{ value: "", label: "Any" }, ...known]} />}
    </div>
  );
}

const OTHER_DAY = "other";

/** Now, or a day: as the books stood at its beginning. */
function AsOf({ day, set }: { day: string | undefined; set: (day: string | undefined) => void }) {
  const [choosing, setChoosing] = useState(false);
  if (choosing) {
    const done = (value: string) => { setChoosing(false); set(value || undefined); };
    return <TextInput label="As of" type="date" defaultValue={day ?? ""} autoFocus onBlur={(event) => done(event.currentTarget.value)} onKeyDown={(event) => event.key === "Enter" && done(event.currentTarget.value)} />;
  }
  const choose = (value: string) => (value === OTHER_DAY ? setChoosing(true) : set(value || undefined));
  const days = day ? [{ value: day, label: day }] : [];
  return <NativeSelect label="As of" value={day ?? ""} onChange={(event) => choose(event.currentTarget.value)} data={[{ value: "", label: "Now" }, ...days, { value: OTHER_DAY, label: "The beginning of a day…" }]} />;
}

const CHOICES = FACTS.map(([value, label]) => ({ value, label }));

function withoutEmpty(given: Partial<Record<keyof ReportSearch, string | undefined>>): ReportSearch {
  return Object.fromEntries(Object.entries(given).filter(([, value]) => value)) as ReportSearch;
}

function Months({ months, asked }: { months: readonly Month[] | undefined; asked: Question }) {
  const zone = useZone().name;
  const { may } = useSession();
  const navigate = route.useNavigate();
  const columns: Column<Month>[] = [
    { title: "Month", cell: ({ month }) => <button className="link" type="button" onClick={() => void navigate({ search: (old) => ({ ...old, month }) })}>{month}</button> },
    { title: "State", cell: ({ closed }) => (closed ? `closed ${zonedDay(closed, zone)}` : "open") },
    { title: "Amount", number: true, phone: "end", cell: ({ cost }) => money(cost) },
    ...(may("charges.day") ? [{ title: "", number: true, cell: ({ month }: Month) => <Link to="/explain" search={{ month }} aria-label={`Explain ${month}`}>Explain</Link> }] : []),
  ];
  return (
    <Section title="Months" note="A closed month does not change; what comes late is billed in the next one and names its own day.">
      {months ? <DataTable label="Months" columns={columns} rows={months} keyOf={({ month }) => month} /> : <Unanswered asked={asked} />}
    </Section>
  );
}
