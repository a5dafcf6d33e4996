// Sums that grow over days: what is booked, what is expected with its band, what was before, and a line they may cross.

import { useEffect, useLayoutEffect, useRef, useState, type KeyboardEvent, type PointerEvent } from "react";
import { axisOf } from "../ticks";
import "./line-chart.css";
import "./path-chart.css";

export type PathSeries = { name: string; values: readonly (number | null)[]; kind: "booked" | "expected" | "before" };
export type PathBand = { name: string; low: readonly (number | null)[]; high: readonly (number | null)[] };
export type PathMark = { at: number; label: string };

const HEIGHT = 220;
const [BOTTOM, TOP, RIGHT] = [22, 22, 10];
const COLOURS = { booked: "var(--series-1)", expected: "var(--series-1)", before: "var(--series-4)" } as const;

type Props = {
  /** Of each value: what stands below the axis, and what is read out. */
  labels: readonly string[];
  names: readonly string[];
  series: readonly PathSeries[];
  band?: PathBand | undefined;
  limit?: { value: number; label: string } | undefined;
  gone?: PathMark | undefined;
  booked?: PathMark | undefined;
  label: string;
  shown: (value: number) => string;
};

export function PathChart({ labels, names, series, band, limit, gone, booked, label, shown }: Props) {
  const box = useRef<HTMLDivElement>(null);
  const [width, setWidth] = useState(600);
  const [at, setAt] = useState<number | null>(null);
  useLayoutEffect(() => setWidth(box.current?.clientWidth ?? 600), []);
  useEffect(() => {
    const watching = new ResizeObserver(([entry]) => entry && setWidth(entry.contentRect.width));
    if (box.current) watching.observe(box.current);
    return () => watching.disconnect();
  }, []);
  const values = [...series.flatMap((each) => each.values), ...(band?.high ?? []), limit?.value ?? 0];
  const { ticks, high: top } = axisOf(0, Math.max(...values.map((value) => value ?? 0), 0.01));
  const left = 14 + 7 * Math.max(...ticks.map((tick) => shown(tick).length));
  const last = Math.max(1, labels.length - 1);
  const x = (index: number) => left + (index / last) * (width - left - RIGHT);
  const y = (value: number) => TOP + (1 - value / top) * (HEIGHT - TOP - BOTTOM);
  const within = (index: number) => Math.max(0, Math.min(labels.length - 1, index));
  const moved = (event: PointerEvent<SVGSVGElement>) => setAt(within(Math.round(((event.clientX - event.currentTarget.getBoundingClientRect().left - left) / (width - left - RIGHT)) * last)));
  const pressed = (event: KeyboardEvent) => {
    const step = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
    if (!step) return;
    event.preventDefault();
    setAt(within((at ?? booked?.at ?? 0) + step));
  };
  const every = Math.ceil(labels.length / (width < 420 ? 4 : width < 760 ? 8 : 15));
  const bookedValue = booked && series.find((each) => each.kind === "booked")?.values[booked.at];
  return (
    <div className="chart-box path-chart" ref={box}>
      <svg width={width} height={HEIGHT} role="img" tabIndex={0} aria-label={`${label}: arrow keys read its values`} onPointerMove={moved} onPointerLeave={() => setAt(null)} onKeyDown={pressed} onBlur={() => setAt(null)}>
        {ticks.map((tick) => (
          <g key={tick}>
            <line x1={left} x2={width - RIGHT} y1={y(tick)} y2={y(tick)} stroke="var(--line)" />
            <text x={left - 8} y={y(tick) + 4} textAnchor="end">{shown(tick)}</text>
          </g>
        ))}
        {labels.map((each, index) => (index % every === 0 && (index === 0 || last - index >= every * 0.75)) || index === last ? <text key={index} x={x(index)} y={HEIGHT - 4} textAnchor={index === last ? "end" : "middle"}>{each}</text> : null)}
        {band && <path className="path-band" d={bandOf(band, x, y)} />}
        {series.map((each) => <path key={each.name} d={pathOf(each.values, x, y)} fill="none" stroke={COLOURS[each.kind]} strokeWidth={each.kind === "before" ? 1.25 : 2} strokeDasharray={each.kind === "expected" ? "5 4" : ""} strokeLinejoin="round" />)}
        {limit && <><line x1={left} x2={width - RIGHT} y1={y(limit.value)} y2={y(limit.value)} stroke="var(--text)" strokeWidth="1.25" /><text className="path-strong" x={left + 6} y={y(limit.value) - 5}>{limit.label}</text></>}
        {gone && <><line x1={x(gone.at)} x2={x(gone.at)} y1={TOP} y2={HEIGHT - BOTTOM} stroke="var(--warn)" strokeWidth="1.25" strokeDasharray="3 3" /><text className="path-warn" x={x(gone.at) - 4} y={TOP - 8} textAnchor={x(gone.at) - left > 90 ? "end" : "start"}>{gone.label}</text></>}
        {booked && typeof bookedValue === "number" && <><circle cx={x(booked.at)} cy={y(bookedValue)} r="3.5" fill="var(--series-1)" stroke="var(--page)" strokeWidth="1.5" /><text x={x(booked.at) - 8} y={y(bookedValue) - 8} textAnchor={x(booked.at) - left > 100 ? "end" : "start"}>{booked.label}</text></>}
        {at !== null && <line x1={x(at)} x2={x(at)} y1={TOP} y2={HEIGHT - BOTTOM} stroke="var(--line-control)" />}
      </svg>
      {at !== null && (
        <div className="chart-tip" role="status" style={x(at) > width / 2 ? { right: width - x(at) + 10 } : { left: x(at) + 10 }}>
          <b>{names[at]}</b>
          {series.map((each) => <Reading key={each.name} name={each.name} value={each.values[at]} shown={shown} />)}
          {band && typeof band.low[at] === "number" && <p><span className="soft">{band.name}</span> <span className="tabular">{shown(band.low[at])} to {shown(band.high[at] ?? 0)}</span></p>}
        </div>
      )}
    </div>
  );
}

function Reading({ name, value, shown }: { name: string; value: number | null | undefined; shown: (value: number) => string }) {
  return typeof value === "number" ? <p><span className="soft">{name}</span> <span className="tabular">{shown(value)}</span></p> : null;
}

type Scale = (value: number) => number;

function pathOf(values: readonly (number | null)[], x: Scale, y: Scale): string {
  const points = values.flatMap((value, index) => (value === null ? [] : [`${x(index).toFixed(1)} ${y(value).toFixed(1)}`]));
  return points.length > 1 ? `M${points.join(" L")}` : "";
}

function bandOf({ low, high }: PathBand, x: Scale, y: Scale): string {
  const up = high.flatMap((value, index) => (value === null ? [] : [`${x(index).toFixed(1)} ${y(value).toFixed(1)}`]));
  const down = low.flatMap((value, index) => (value === null ? [] : [`${x(index).toFixed(1)} ${y(value).toFixed(1)}`])).reverse();
  return up.length > 1 ? `M${[...up, ...down].join(" L")} Z` : "";
}
