// Lines over time with a hover and a table: an own SVG, since a chart library for one line weighs half a page.

import { useEffect, useId, useLayoutEffect, useRef, useState, type KeyboardEvent, type PointerEvent } from "react";
import { clock, count } from "../format";
import { axisOf } from "../ticks";
import "./line-chart.css";

export type ChartLine = { name: string; values: readonly (number | null)[]; colour: string; dashed?: boolean; filled?: boolean };

const HEIGHT = 180;
const [LEFT, BOTTOM, TOP] = [44, 22, 10];

/** `times`: ISO, one for each value. `unit`: what the values count. */
export function LineChart({ times, lines, label }: { times: readonly string[]; lines: readonly ChartLine[]; label: string }) {
  const [tabled, setTabled] = useState(false);
  const id = useId();
  return (
    <figure className="chart" aria-label={label}>
      {tabled ? <ValueTable times={times} lines={lines} label={label} /> : <Drawing times={times} lines={lines} label={label} />}
      <figcaption>
        <ul className="legend">
          {lines.map((line) => (
            <li key={line.name}><svg width="18" height="8" aria-hidden><line x1="0" x2="18" y1="4" y2="4" stroke={line.colour} strokeWidth="2" strokeDasharray={line.dashed ? "4 3" : ""} /></svg>{line.name}</li>
          ))}
        </ul>
        <button type="button" className="link" id={id} onClick={() => setTabled(!tabled)}>{tabled ? "Show as chart" : "Show as table"}</button>
      </figcaption>
    </figure>
  );
}

function Drawing({ times, lines, label }: { times: readonly string[]; lines: readonly ChartLine[]; label: string }) {
  const box = useRef<HTMLDivElement>(null);
  const [width, setWidth] = useState(600);
  const [at, setAt] = useState<number | null>(null);
  useLayoutEffect(() => setWidth(box.current?.clientWidth ?? 600), []);
  useEffect(() => {
    const watching = new ResizeObserver(([entry]) => entry && setWidth(entry.contentRect.width));
    if (box.current) watching.observe(box.current);
    return () => watching.disconnect();
  }, []);
  const most = Math.max(1, ...lines.flatMap((line) => line.values.map((value) => value ?? 0)));
  const { ticks, high: top } = axisOf(0, most);
  const last = Math.max(1, times.length - 1);
  const x = (index: number) => LEFT + (index / last) * (width - LEFT - 8);
  const y = (value: number) => TOP + (1 - value / top) * (HEIGHT - TOP - BOTTOM);
  const moved = (event: PointerEvent<SVGSVGElement>) => {
    const inside = event.clientX - event.currentTarget.getBoundingClientRect().left - LEFT;
    setAt(Math.max(0, Math.min(times.length - 1, Math.round((inside / (width - LEFT - 8)) * last))));
  };
  const pressed = (event: KeyboardEvent) => {
    const step = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
    if (!step) return;
    event.preventDefault();
    setAt(Math.max(0, Math.min(times.length - 1, (at ?? times.length - 1) + step)));
  };
  return (
    <div className="chart-box" ref={box}>
      <svg width={width} height={HEIGHT} role="img" tabIndex={0} aria-label={`${label}: arrow keys read its values`} onPointerMove={moved} onPointerLeave={() => setAt(null)} onKeyDown={pressed} onBlur={() => setAt(null)}>
        {ticks.map((tick) => (
          <g key={tick}>
            <line x1={LEFT} x2={width - 8} y1={y(tick)} y2={y(tick)} stroke="var(--line)" />
            <text x={LEFT - 8} y={y(tick) + 4} textAnchor="end">{count(tick)}</text>
          </g>
        ))}
        {labelled(times, width).map((index) => <text key={index} x={x(index)} y={HEIGHT - 4} textAnchor="middle">{clock(times[index] as string).slice(0, 5)}</text>)}
        {lines.map((line) => <Line key={line.name} line={line} x={x} y={y} />)}
        {at !== null && <line x1={x(at)} x2={x(at)} y1={TOP} y2={HEIGHT - BOTTOM} stroke="var(--line-control)" />}
      </svg>
      {at !== null && (
        <div className="chart-tip" role="status" style={x(at) > width / 2 ? { right: width - x(at) + 10 } : { left: x(at) + 10 }}>
          <b className="tabular">{clock(times[at] as string).slice(0, 5)} UTC</b>
          {lines.map((line) => <p key={line.name}><span className="soft">{line.name}</span> <span className="tabular">{count(line.values[at])}</span></p>)}
        </div>
      )}
    </div>
  );
}

function Line({ line, x, y }: { line: ChartLine; x: (index: number) => number; y: (value: number) => number }) {
  const runs = runsOf(line.values);
  return (
    <>
      {runs.map((run) => {
        const path = run.map(([index, value]) => `${x(index).toFixed(1)} ${y(value).toFixed(1)}`).join(" L");
        const [first, last] = [run[0], run.at(-1)];
        return (
          <g key={first?.[0]}>
            {line.filled && first && last && <path d={`M${x(first[0])} ${y(0)} L${path} L${x(last[0])} ${y(0)} Z`} fill={line.colour} opacity="0.1" />}
            <path d={`M${path}`} fill="none" stroke={line.colour} strokeWidth="1.75" strokeDasharray={line.dashed ? "4 3" : ""} strokeLinejoin="round" />
          </g>
        );
      })}
    </>
  );
}

/** The parts of a series without gaps, as index and value. */
function runsOf(values: readonly (number | null)[]): [number, number][][] {
  const runs: [number, number][][] = [];
  values.forEach((value, index) => {
    if (value === null) return;
    if (index === 0 || values[index - 1] === null) runs.push([]);
    runs.at(-1)?.push([index, value]);
  });
  return runs;
}

/** Indices whose time is written below: of minutes each fifth, of hours each fourth, fewer where it is narrow. */
function labelled(times: readonly string[], width: number): number[] {
  const hourly = times.length > 1 && Date.parse(times[1] as string) - Date.parse(times[0] as string) >= 3_600_000;
  const every = hourly ? (width < 420 ? 8 : 4) : width < 420 ? 20 : width < 760 ? 10 : 5;
  const at = (time: string) => (hourly ? new Date(time).getUTCHours() : new Date(time).getUTCMinutes());
  return times.flatMap((time, index) => (index > 0 && index < times.length - 1 && at(time) % every === 0 ? [index] : []));
}

function ValueTable({ times, lines, label }: { times: readonly string[]; lines: readonly ChartLine[]; label: string }) {
  return (
    <div className="chart-table" role="group" aria-label={label} tabIndex={0}>
      <table className="table">
        <thead><tr><th scope="col">Time, UTC</th>{lines.map((line) => <th key={line.name} scope="col" className="number">{line.name}</th>)}</tr></thead>
        <tbody>
          {times.map((time, index) => (
            <tr key={time}><td className="tabular">{clock(time).slice(0, 5)}</td>{lines.map((line) => <td key={line.name} className="number">{count(line.values[index])}</td>)}</tr>
          )).reverse()}
        </tbody>
      </table>
    </div>
  );
}
