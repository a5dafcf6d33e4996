// The days as a table: a row a day, a column a group.

import { centsOf, changeText, roundingOf } from "../../../shared/cents";
import { amountsOf, isFine, type Line, type Measure, type Series } from "./where-words";
import { written } from "./where-legend";

export function DayTable({ series, lines, measure }: { series: Series; lines: readonly Line[]; measure: Measure }) {
  const apart = series.days.map((day, index) => roundingOf(lines.map((line) => amountsOf(line, index).cost), day.total.cost));
  const month = roundingOf(lines.map((line) => line.month.cost), series.total.cost);
  const fine = isFine(series);
  const rounded = measure === "cost" && !fine && (month !== 0n || apart.some((each) => each !== 0n));
  const below = [...lines.map((line) => ({ id: line.id, rest: centsOf(line.month.cost) - line.days.reduce((sum, day) => sum + centsOf(day.cost), 0n) })), { id: "total", rest: centsOf(series.total.cost) - series.days.reduce((sum, day) => sum + centsOf(day.total.cost), 0n) }];
  const cell = (cents: bigint) => (cents ? changeText(cents) : "");
  return (
    <div className="scroll where-days" role="group" aria-label="Days of the month" tabIndex={0}>
      <table className="table">
        <thead><tr><th scope="col">Day</th>{lines.map((line) => <th key={line.id} scope="col" className="number"><bdi>{line.name}</bdi></th>)}{rounded && <th scope="col" className="number soft">Rounding to cents</th>}<th scope="col" className="number">Total</th></tr></thead>
        <tbody>
          {series.days.map((day, index) => (
            <tr key={day.date}><th scope="row" className="nowrap">{day.date}{day.open && <span className="soft"> open</span>}</th>{lines.map((line) => <td key={line.id} className="number">{written(amountsOf(line, index), measure, fine)}</td>)}{rounded && <td className="number soft">{cell(apart[index] ?? 0n)}</td>}<td className="number">{written(day.total, measure, fine)}</td></tr>
          ))}
          {measure === "cost" && !fine && below.some((each) => each.rest) && (
            <tr className="rounding"><th scope="row" className="nowrap">Rounding to cents</th>{below.slice(0, -1).map((each) => <td key={each.id} className="number">{cell(each.rest)}</td>)}{rounded && <td />}<td className="number">{cell(below.at(-1)?.rest ?? 0n)}</td></tr>
          )}
        </tbody>
        <tfoot><tr><th scope="row">Month</th>{lines.map((line) => <td key={line.id} className="number">{written(line.month, measure, fine)}</td>)}{rounded && <td className="number soft">{cell(month)}</td>}<td className="number">{written(series.total, measure, fine)}</td></tr></tfoot>
      </table>
    </div>
  );
}
