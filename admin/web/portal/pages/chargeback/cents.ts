// A matrix in cents: each cell is rounded once, and what then does not add up is told as a row and a column of its
// own. Pure.

import { centsOf } from "../../../shared/cents";
import type { Money } from "../../../shared/format";

export type CentsRow = { cells: bigint[]; rounding: bigint; total: bigint };
export type CentsMatrix = { rows: CentsRow[]; rounding: CentsRow; foot: CentsRow };

/** `rows` and `foot` as they are shown; `rounding` is the row that each column lacks, and each row has what it lacks. */
export function centsMatrix(rows: readonly { cells: readonly Money[]; total: Money }[], foot: { cells: readonly Money[]; total: Money }): CentsMatrix {
  const shown = rows.map((row) => rowOf(row.cells.map(centsOf), centsOf(row.total)));
  const last = rowOf(foot.cells.map(centsOf), centsOf(foot.total));
  const lacks = (whole: bigint, parts: readonly bigint[]) => whole - sum(parts);
  const rounding: CentsRow = {
    cells: last.cells.map((whole, at) => lacks(whole, shown.map((row) => row.cells[at] ?? 0n))),
    rounding: lacks(last.rounding, shown.map((row) => row.rounding)),
    total: lacks(last.total, shown.map((row) => row.total)),
  };
  return { rows: shown, rounding, foot: last };
}

const rowOf = (cells: bigint[], total: bigint): CentsRow => ({ cells, rounding: total - sum(cells), total });
const sum = (amounts: readonly bigint[]) => amounts.reduce((all, each) => all + each, 0n);

/** Whether the matrix has a row, or a column, of what does not add up. */
export function roundingOf({ rows, rounding, foot }: CentsMatrix): { row: boolean; column: boolean } {
  const row = [...rounding.cells, rounding.total].some((each) => each !== 0n);
  return { row, column: [...rows, foot].some((each) => each.rounding !== 0n) };
}
