// The legend of the bars, which is a table: each group's day and month.

import { ActionIcon } from "@mantine/core";
import { Link } from "@tanstack/react-router";
import { ChevronLeft, ChevronRight } from "lucide-react";
import { Swatch } from "../../../shared/components/bar-fills";
import { centsOf, centsText, changeText, roundingOf } from "../../../shared/cents";
import { count, money } from "../../../shared/format";
import { useSession } from "../../../shared/session";
import { amountsOf, explained, GROUPS, isFine, type Amount, type Line, type Measure, type Series } from "./where-words";

type Props = { series: Series; lines: readonly Line[]; measure: Measure; at: number; look: (day: number) => void };

export function WhereLegend({ series, lines, measure, at, look }: Props) {
  const fine = isFine(series);
  const explains = useSession().may("charges.day");
  const day = series.days[at];
  if (!day) return null;
  return (
    <div className="where-legend">
      <div className="where-day">
        <ActionIcon variant="subtle" color="gray" size="md" aria-label="The day before" disabled={at === 0} onClick={() => look(at - 1)}><ChevronLeft size={14} /></ActionIcon>
        <b aria-live="polite">{day.date}</b>
        <ActionIcon variant="subtle" color="gray" size="md" aria-label="The next day" disabled={at >= series.days.length - 1} onClick={() => look(at + 1)}><ChevronRight size={14} /></ActionIcon>
        {explains && <Link className="where-explain" to="/explain" search={explained(series, at)}>Explain this day</Link>}
      </div>
      <table className="table" aria-label={`By ${GROUPS[series.by].title}`}>
        <thead><tr><th scope="col">{title(GROUPS[series.by].title)}</th><th scope="col" className="number">{day.open ? "Today" : "This day"}</th><th scope="col" className="number">Month</th></tr></thead>
        <tbody>
          {lines.map((line) => (
            <tr key={line.id}><td><span className="where-name"><Swatch tone={line.tone} />{explains && line.of !== undefined ? <Link to="/explain" search={explained(series, at, line.of)} title={line.name}><bdi>{line.name}</bdi></Link> : <bdi title={line.name}>{line.name}</bdi>}</span></td><td className="number">{written(amountsOf(line, at), measure, fine)}</td><td className="number">{written(line.month, measure, fine)}</td></tr>
          ))}
          {measure === "cost" && !fine && <Rounding day={roundingOf(lines.map((line) => amountsOf(line, at).cost), day.total.cost)} month={roundingOf(lines.map((line) => line.month.cost), series.total.cost)} />}
        </tbody>
        <tfoot><tr><th scope="row">Total</th><td className="number">{written(day.total, measure, fine)}</td><td className="number">{written(series.total, measure, fine)}</td></tr></tfoot>
      </table>
    </div>
  );
}

function Rounding({ day, month }: { day: bigint; month: bigint }) {
  if (!day && !month) return null;
  return <tr className="rounding"><td>Rounding to cents</td><td className="number">{day ? changeText(day) : ""}</td><td className="number">{month ? changeText(month) : ""}</td></tr>;
}

/** An amount as a cell has it: cents, of a `fine` month all nine decimals, so that nothing is rounded. */
export function written(amount: Amount, measure: Measure, fine: boolean): string {
  if (measure === "tokens") return count(amount.tokens).replace("-", "\u2212");
  return fine ? money(amount.cost, 9) : centsText(centsOf(amount.cost));
}

const title = (text: string) => text.charAt(0).toUpperCase() + text.slice(1);
