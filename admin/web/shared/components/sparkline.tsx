// A line without axes. Its range is at least 35 % of its largest value, so only a jump jumps.

const [WIDTH, HEIGHT] = [100, 24];

export function Sparkline({ series, bad, label }: { series: readonly (number | null)[]; bad: boolean; label: string }) {
  const known = series.filter((value): value is number => value !== null);
  if (known.length < 2) return <svg className="spark" viewBox={`0 0 ${WIDTH} ${HEIGHT}`} preserveAspectRatio="none" aria-hidden="true" />;
  const line = path(series, known);
  return (
    <svg className="spark" viewBox={`0 0 ${WIDTH} ${HEIGHT}`} preserveAspectRatio="none" role="img" aria-label={label}>
      <path d={`${line} L${WIDTH} ${HEIGHT} L${start(series)} ${HEIGHT} Z`} fill="var(--track)" opacity="0.6" />
      <path d={line} fill="none" stroke={bad ? "var(--bad)" : "var(--bar)"} strokeWidth="1.25" />
    </svg>
  );
}

const x = (index: number, of: number) => ((index / Math.max(1, of - 1)) * WIDTH).toFixed(1);
const start = (series: readonly (number | null)[]) => x(series.findIndex((value) => value !== null), series.length);

function path(series: readonly (number | null)[], known: readonly number[]): string {
  const [low, high] = [Math.min(...known), Math.max(...known)];
  const range = Math.max(high - low, 0.35 * Math.abs(high), 1e-9);
  const bottom = (high + low) / 2 - range / 2;
  const points = series.flatMap((value, index) =>
    value === null ? [] : [`${x(index, series.length)} ${(HEIGHT - 2 - ((value - bottom) / range) * (HEIGHT - 4)).toFixed(1)}`],
  );
  return `M${points.join(" L")}`;
}
