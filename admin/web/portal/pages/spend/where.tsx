// Where a month goes: its days as stacked bars, and the same as a table; what explains jumps is a letter with a line below.

import { NativeSelect, SegmentedControl } from "@mantine/core";
import { useNavigate } from "@tanstack/react-router";
import { useState } from "react";
import { StackedBars } from "../../../shared/components/stacked-bars";
import { Section } from "../../../shared/components/section";
import { Unanswered } from "../../../shared/components/unanswered";
import { answered, api } from "../../../shared/api";
import { useLive } from "../../../shared/live";
import { useSession } from "../../../shared/session";
import { DayTable } from "./where-days";
import { WhereLegend } from "./where-legend";
import { amountsOf, axisText, explained, GROUPS, leadOf, linesOf, valueOf, type By, type Line, type Measure, type Series } from "./where-words";
import { dayOf } from "./months";
import "./where.css";

/** What of it stands in the page's address. */
export type WhereSearch = { by?: By; measure?: Measure; show?: "chart" | "table"; day?: string };
type Change = (changed: { [name in keyof WhereSearch]?: WhereSearch[name] | undefined }) => void;
type Props = { tenant: string; month?: string | undefined; search: WhereSearch; change: Change };

const [EVERY_MS, OVER_EVERY_MS] = [5000, 60_000];

export function WhereSection({ tenant, month, search, change }: Props) {
  const { by = "model", measure = "cost", show = "chart" } = search;
  const query = { by, ...(month ? { month } : {}) };
  const asked = useLive(["spend.series", tenant, query], () => answered(api.GET("/api/tenants/{tenant}/spend/series", { params: { path: { tenant }, query } })), month ? OVER_EVERY_MS : EVERY_MS);
  return (
    <Section title="Where does it go?" end={<Controls by={by} measure={measure} show={show} change={change} />}>
      {asked.data ? <Where series={asked.data} measure={measure} show={show} search={search} change={change} /> : <Unanswered asked={asked} loading={LOADING} />}
    </Section>
  );
}

const LOADING = <div aria-busy="true" role="status" aria-label="Loading"><span className="skeleton" /><div className="where-loading" /></div>;

function Controls({ by, measure, show, change }: { by: By; measure: Measure; show: "chart" | "table"; change: Change }) {
  return (
    <div className="where-controls">
      <NativeSelect size="xs" aria-label="Told apart by" value={by} data={Object.entries(GROUPS).map(([value, { title }]) => ({ value, label: `By ${title}` }))} onChange={(event) => change({ by: event.currentTarget.value as By })} />
      <SegmentedControl size="xs" aria-label="Measure" value={measure} data={[{ value: "cost", label: "Cost" }, { value: "tokens", label: "Tokens" }]} onChange={(value) => change({ measure: value as Measure })} transitionDuration={0} />
      <SegmentedControl size="xs" aria-label="Shown as" value={show} data={[{ value: "chart", label: "Chart" }, { value: "table", label: "Table" }]} onChange={(value) => change({ show: value as "chart" | "table" })} transitionDuration={0} />
    </div>
  );
}

function Where({ series, measure, show, search, change }: { series: Series; measure: Measure; show: "chart" | "table"; search: WhereSearch; change: Change }) {
  const lines = linesOf(series);
  if (!lines.length) return <p className="soft">Nothing was used in this month.</p>;
  return (
    <>
      <p className="where-lead soft">{leadOf(series, measure)}</p>
      {show === "table" ? <DayTable series={series} lines={lines} measure={measure} /> : <WhereChart series={series} lines={lines} measure={measure} search={search} change={change} />}
      <Marks series={series} />
    </>
  );
}

function WhereChart({ series, lines, measure, search, change }: { series: Series; lines: readonly Line[]; measure: Measure; search: WhereSearch; change: Change }) {
  const { may } = useSession();
  const [pointed, setPointed] = useState<number | null>(null);
  const asked = series.days.findIndex((day) => day.date === search.day);
  const at = Math.min(pointed ?? (asked >= 0 ? asked : lastOver(series)), series.days.length - 1);
  const explain = useNavigate();
  const pick = (day: number) => void explain({ to: "/explain", search: explained(series, day) });
  const look = (day: number) => {
    setPointed(null);
    change({ day: series.days[day]?.date });
  };
  return (
    <div className="where">
      <StackedBars
        label={`${measure === "cost" ? "Cost" : "Tokens"} by day, stacked; its values stand in the table beside it`}
        days={series.days.map((day, index) => ({ label: dayOf(day.date), open: day.open, values: lines.map((line) => valueOf(amountsOf(line, index), measure)) }))}
        tones={lines.map((line) => line.tone)}
        marks={series.marks.map((mark) => ({ letter: mark.letter, day: series.days.findIndex((day) => day.date === mark.date) }))}
        at={at}
        onAt={setPointed}
        onPick={may("charges.day") ? pick : undefined}
        tick={(value) => axisText(value, measure)}
      />
      <WhereLegend series={series} lines={lines} measure={measure} at={at} look={look} />
    </div>
  );
}

/** The last day that is over, or the first one of all. */
function lastOver(series: Series): number {
  const over = series.days.filter((day) => !day.open).length;
  return Math.max(0, over - 1);
}

function Marks({ series }: { series: Series }) {
  if (!series.marks.length) return null;
  return (
    <>
      <ol className="where-marks" aria-label="What explains jumps">
        {series.marks.map((mark) => <li key={mark.letter}><b className="where-letter">{mark.letter}</b> <time dateTime={mark.date} className="soft nowrap">{mark.date}</time> <span>{mark.text}</span></li>)}
      </ol>
      {series.unmarked > 0 && <p className="note">{series.unmarked} smaller changes are not marked.</p>}
    </>
  );
}
