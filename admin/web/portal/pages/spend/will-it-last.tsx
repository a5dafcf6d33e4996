// Will the budget last? The month's path, what is expected with its band, and the budget that it may cross.

import { SegmentedControl } from "@mantine/core";
import { useState } from "react";
import { PathChart, type PathBand, type PathSeries } from "../../../shared/components/path-chart";
import { Section } from "../../../shared/components/section";
import { money, type Money } from "../../../shared/format";
import { monthName } from "./months";
import { OtherBudgets } from "./other-budgets";
import { crossingWords, daysBetween, isSpent, limitOf, monthAfter, monthBudget, ordinal, type Summary } from "./words";

type Sums = readonly (Money | null)[];
type MonthPath = { days: string[]; booked: Sums; expected: Sums; low: Sums; high: Sums; before: Sums };

export function WillItLast({ summary }: { summary: Summary }) {
  const [show, setShow] = useState("chart");
  const budget = monthBudget(summary);
  const title = summary.state !== "open" ? "How did it grow?" : budget ? "Will the budget last?" : "What will the month cost?";
  const path = pathOf(summary);
  const end = <SegmentedControl size="xs" aria-label="Shown as" value={show} onChange={setShow} data={[{ value: "chart", label: "Chart" }, { value: "table", label: "Table" }]} transitionDuration={0} />;
  return (
    <Section title={title} end={end}>
      <p className="meta">{crossingWords(summary)}</p>
      {show === "chart" ? <Drawn summary={summary} path={path} title={title} /> : <PathTable summary={summary} path={path} title={title} />}
      {summary.state === "open" && <OtherBudgets summary={summary} />}
    </Section>
  );
}

function Drawn({ summary, path, title }: { summary: Summary; path: MonthPath; title: string }) {
  const budget = monthBudget(summary);
  const before = monthName(monthAfter(summary.month, -1));
  const over = summary.days.filter((each) => each.over).length;
  const series: PathSeries[] = [
    { name: before, values: path.before.map(units), kind: "before" },
    { name: "Expected", values: path.expected.map(units), kind: "expected" },
    { name: "Booked", values: path.booked.map(units), kind: "booked" },
  ];
  const band: PathBand | undefined = summary.forecast ? { name: "4 of 5 times", low: path.low.map(units), high: path.high.map(units) } : undefined;
  const gone = budget && !isSpent(budget) ? budget.lasts?.day : undefined;
  return (
    <figure className="chart" aria-label={title}>
      <PathChart
        label={title}
        labels={path.days.map((day) => String(Number(day.slice(8))))}
        names={path.days}
        series={series}
        band={band}
        limit={budget && { value: units(limitOf(budget)) ?? 0, label: `Budget ${money(limitOf(budget))}` }}
        gone={gone ? { at: daysBetween(path.days[0] ?? gone, gone), label: `gone on ${ordinal(gone)}` } : undefined}
        booked={summary.state === "open" && over > 0 ? { at: over - 1, label: `booked to ${ordinal(path.days[over - 1] ?? "")}` } : undefined}
        shown={shownUnits}
      />
      <figcaption className="note">{summary.forecast ? "Solid: booked. Dashed: expected. Band: 4 of 5 times inside it. " : "Solid: booked. "}Grey: {before}.</figcaption>
    </figure>
  );
}

function PathTable({ summary, path, title }: { summary: Summary; path: MonthPath; title: string }) {
  const before = monthName(monthAfter(summary.month, -1));
  return (
    <div className="scroll path-table" role="group" tabIndex={0} aria-label={`${title} As a table`}>
      <table className="table">
        <thead><tr><th scope="col">To the end of</th><th scope="col" className="number">Booked</th>{summary.forecast && <><th scope="col" className="number">Expected</th><th scope="col" className="number">4 of 5 times from</th><th scope="col" className="number">to</th></>}<th scope="col" className="number">{before}</th></tr></thead>
        <tbody>
          {path.days.map((day, index) => (
            <tr key={day}>
              <td className="nowrap">{day}</td>
              {[path.booked, ...(summary.forecast ? [path.expected, path.low, path.high] : []), path.before].map((sums, column) => <td key={column} className="number">{sums[index] ? money(sums[index]) : ""}</td>)}
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}

/** The sums to the end of each day of the month; what is expected begins at the last day that is booked whole. */
function pathOf(summary: Summary): MonthPath {
  const days = daysOf(summary);
  const over = summary.days.filter((each) => each.over);
  const booked = sumsOf(over.map((each) => each.cost), days.length);
  const ahead = new Map(summary.forecast?.days.map((each) => [each.day, each]));
  const last = over.length - 1;
  const of = (which: "expected" | "low" | "high"): Sums =>
    days.map((day, index) => (ahead.size && index === last ? (booked[last] ?? null) : (ahead.get(day)?.[which] ?? null)));
  return { days, booked, expected: of("expected"), low: of("low"), high: of("high"), before: sumsOf(summary.before.map((each) => each.cost), days.length) };
}

function daysOf(summary: Summary): string[] {
  const known = [...new Set([...summary.days.map((each) => each.day), ...(summary.forecast?.days.map((each) => each.day) ?? [])])];
  if (summary.state !== "open" || summary.forecast) return known;
  const count = new Date(Date.UTC(Number(summary.month.slice(0, 4)), Number(summary.month.slice(5)), 0)).getUTCDate();
  return Array.from({ length: count }, (_, index) => `${summary.month}-${String(index + 1).padStart(2, "0")}`);
}

function sumsOf(costs: readonly Money[], length: number): Sums {
  let sum = 0n;
  const sums = costs.map((cost) => ({ nano: String((sum += BigInt(cost.nano))), currency: cost.currency }));
  return Array.from({ length }, (_, index) => sums[index] ?? null);
}

/** Only to draw: no amount is read from it. */
const units = (amount: Money | null) => (amount ? Number(amount.nano) / 1e9 : null);
const [whole, cents] = [0, 2].map((digits) => new Intl.NumberFormat("en", { maximumFractionDigits: digits })) as [Intl.NumberFormat, Intl.NumberFormat];
const shownUnits = (value: number) => (value < 10 ? cents : whole).format(value);
