// The report: an amount in cents for each row and column, and the sums, which are those of the books.

import type { ReactNode } from "react";
import { centsText, changeText } from "../../../shared/cents";
import { centsMatrix, roundingOf, type CentsRow } from "./cents";
import { factName, monthName, nameOf, type Head, type Report } from "./words";
import type { Fact } from "./search";
import "./matrix.css";

export function Matrix({ report }: { report: Report }) {
  const foot = { cells: report.heads.map((head) => head.total), total: report.total };
  const cents = centsMatrix(report.lines.map((line) => ({ cells: line.cells, total: line.head.total })), foot);
  const { row, column } = roundingOf(cents);
  const amounts = (of: CentsRow) => <Amounts of={of} column={column} />;
  return (
    <div className="scroll" role="group" aria-label="Report" tabIndex={0}>
      <table className="table matrix">
        <caption className="unseen">{factName(report.rows)} by {factName(report.columns).toLowerCase()}, {monthName(report.month)}, USD</caption>
        <thead>
          <tr>
            <th scope="col">{factName(report.rows)}</th>
            {report.heads.map((head) => <th key={keyOf(head)} scope="col" className="number"><Name of={head} fact={report.columns} /></th>)}
            {column && <th scope="col" className="number matrix-small">Rounding</th>}
            <th scope="col" className="number">Total</th>
          </tr>
        </thead>
        <tbody>
          {report.lines.map((line, at) => <tr key={keyOf(line.head)} className={line.head.kind}><RowHead><Name of={line.head} fact={report.rows} /></RowHead>{cents.rows[at] && amounts(cents.rows[at])}</tr>)}
          {row && <tr className="matrix-small"><RowHead>Rounding to cents</RowHead><Amounts of={cents.rounding} column={column} rounding /></tr>}
        </tbody>
        <tfoot><tr><RowHead>{monthName(report.month)}</RowHead>{amounts(cents.foot)}</tr></tfoot>
      </table>
    </div>
  );
}

const RowHead = ({ children }: { children: ReactNode }) => <th scope="row">{children}</th>;
const keyOf = (head: Head) => `${head.kind} ${head.of}`;

function Name({ of, fact }: { of: Head; fact: Fact }) {
  const name = nameOf(of, fact);
  return <span className="matrix-name" title={name ?? of.name}>{name ?? <bdi>{of.name || of.of}</bdi>}</span>;
}

/** The cells of a row. A change, as rounding is, has its sign; where nothing is there is a dash, or nothing at all. */
function Amounts({ of, column, rounding = false }: { of: CentsRow; column: boolean; rounding?: boolean }) {
  const change = (cents: bigint) => (cents === 0n ? "" : changeText(cents));
  const shown = (cents: bigint) => (rounding ? change(cents) : cents === 0n ? <span className="soft">–</span> : centsText(cents));
  return (
    <>
      {of.cells.map((cents, at) => <td key={at} className="number">{shown(cents)}</td>)}
      {column && <td className="number matrix-small">{change(of.rounding)}</td>}
      <td className="number">{rounding ? change(of.total) : centsText(of.total)}</td>
    </>
  );
}
