// Round values of a chart's axis. Pure.

export type Axis = { low: number; high: number; ticks: number[] };

/** An axis that holds 0 and both ends, with about five round values. */
export function axisOf(least: number, most: number): Axis {
  const step = stepOf((Math.max(most, 0) - Math.min(least, 0)) / 4);
  const [low, high] = [Math.floor(Math.min(least, 0) / step), Math.max(1, Math.ceil(Math.max(most, 0) / step))];
  const ticks = Array.from({ length: high - low + 1 }, (_, index) => (low + index) * step);
  return { low: low * step, high: high * step, ticks };
}

/** The next of 1, 2, 2.5, 5 and 10 times a power of ten. */
export function stepOf(rough: number): number {
  if (rough <= 0) return 1;
  const size = 10 ** Math.floor(Math.log10(rough));
  return ([1, 2, 2.5, 5, 10].find((each) => each * size >= rough * 0.999999) ?? 10) * size;
}
