// Sums of cents as a page shows them: a cell is rounded once, half to even, and what then does not add up is a row of its own. Pure.

import { NOBODY_KNOWS, type Money } from "./format";

const CENT = 10_000_000n;

/** An amount's cents, half to even. */
export function centsOf(amount: Money): bigint {
  const nano = BigInt(amount.nano);
  const size = nano < 0n ? -nano : nano;
  const [cents, rest] = [size / CENT, size % CENT];
  const up = rest * 2n > CENT || (rest * 2n === CENT && cents % 2n === 1n);
  const rounded = up ? cents + 1n : cents;
  return nano < 0n ? -rounded : rounded;
}

const whole = new Intl.NumberFormat("en");

/** Cents as money: 1,234.50; minus is U+2212. */
export function centsText(cents: bigint): string {
  const size = cents < 0n ? -cents : cents;
  return `${cents < 0n ? "\u2212" : ""}${whole.format(size / 100n)}.${(size % 100n).toString().padStart(2, "0")}`;
}

/** A change: with a plus where it is more. */
export function changeText(cents: bigint | null): string {
  if (cents === null) return NOBODY_KNOWS;
  return cents > 0n ? `+${centsText(cents)}` : centsText(cents);
}

/** What rows lack to their total, once all are in cents. */
export function roundingOf(rows: readonly Money[], total: Money): bigint {
  return centsOf(total) - rows.reduce((sum, each) => sum + centsOf(each), 0n);
}
