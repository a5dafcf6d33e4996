// A table from its columns. On a phone each row is two lines: the first column and the one called `end`, then the
// others, soft, as `label value`. A `foot` has the row of their sums, or several.

import type { ReactNode } from "react";
import "./data-table.css";

/** `right`: a date, at the right of its column. `phone`: "end" stands at the right of the first line, "hide" nowhere.
 * `narrow`: it is left out where the window is too narrow for all columns of a desk. */
export type Column<Row> = { title: string; cell: (row: Row) => ReactNode; number?: boolean; right?: boolean; phone?: "end" | "hide"; narrow?: "hide" };

type Table<Row> = { columns: readonly Column<Row>[]; rows: readonly Row[]; keyOf: (row: Row) => string; label: string; foot?: Row | readonly Row[] };

export function DataTable<Row>({ columns, rows, keyOf, label, foot }: Table<Row>) {
  const cells = (row: Row) => columns.map((column) => <td key={column.title} className={`${sideOf(column)} ${column.phone ?? ""} ${column.narrow ? "narrow-hide" : ""}`} data-label={column.title}>{column.cell(row)}</td>);
  const feet = [foot ?? []].flat() as Row[];
  return (
    <table className="table data-table" aria-label={label}>
      <thead><tr>{columns.map((column) => <th key={column.title} scope="col" className={`${sideOf(column)} ${column.narrow ? "narrow-hide" : ""}`}>{column.title || <span className="unseen">What can be done</span>}</th>)}</tr></thead>
      <tbody>
        {rows.map((row) => <tr key={keyOf(row)}>{cells(row)}</tr>)}
      </tbody>
      {feet.length > 0 && <tfoot>{feet.map((row) => <tr key={keyOf(row)}>{cells(row)}</tr>)}</tfoot>}
    </table>
  );
}

const sideOf = ({ number, right }: { number?: boolean; right?: boolean }) => (number ? "number" : right ? "right" : "");
