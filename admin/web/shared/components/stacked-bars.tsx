// Days as bars of stacked parts: an own SVG with patterns. Its values stand in the legend, which is a table beside it.

import { useEffect, useLayoutEffect, useRef, useState, type MouseEvent, type PointerEvent } from "react";
import { axisOf } from "../ticks";
import { Fills, fillOf, useFills, type Tone } from "./bar-fills";
import "./stacked-bars.css";

/** `values`: one for each tone, from the bottom up; below 0 they hang from the axis. `open`: not over, drawn paler. */
export type BarDay = { label: string; open: boolean; values: readonly number[] };
/** A letter above the bar of a day. */
export type BarMark = { letter: string; day: number };

type Props = {
  days: readonly BarDay[];
  tones: readonly Tone[];
  marks?: readonly BarMark[];
  /** The day that is looked at. */
  at: number | null;
  onAt: (day: number) => void;
  /** A day was clicked; a finger only looks. */
  onPick?: ((day: number) => void) | undefined;
  label: string;
  tick: (value: number) => string;
};

const HEIGHT = 260;
const [TOP, BOTTOM, RIGHT, MARK] = [44, 24, 6, 18];

export function StackedBars({ days, tones, marks = [], at, onAt, onPick, label, tick }: Props) {
  const id = useFills();
  const [box, width] = useWidth();
  const axis = axisOf(Math.min(0, ...days.map((day) => summed(day, (value) => value < 0))), Math.max(0, ...days.map((day) => summed(day, (value) => value > 0))));
  const left = 12 + 7 * Math.max(...axis.ticks.map((each) => tick(each).length));
  const band = Math.max(1, width - left - RIGHT) / Math.max(1, days.length);
  const bar = Math.max(2, Math.min(40, band * 0.76));
  const x = (day: number) => left + band * day + band / 2;
  const y = (value: number) => TOP + ((axis.high - value) / (axis.high - axis.low)) * (HEIGHT - TOP - BOTTOM);
  const under = (event: MouseEvent<SVGSVGElement>) => {
    const day = Math.floor((event.clientX - event.currentTarget.getBoundingClientRect().left - left) / band);
    return day >= 0 && day < days.length ? day : null;
  };
  const pointed = (event: PointerEvent<SVGSVGElement>) => {
    const day = under(event);
    if (day !== null) onAt(day);
  };
  const clicked = (event: MouseEvent<SVGSVGElement>) => {
    const day = (event.nativeEvent as globalThis.PointerEvent).pointerType === "mouse" ? under(event) : null;
    if (day !== null) onPick?.(day);
  };
  return (
    <div className="bars-box" ref={box}>
      <svg className="bars" width={width} height={HEIGHT} role="img" aria-label={label} onPointerMove={pointed} onPointerDown={pointed} onClick={clicked} style={onPick && { cursor: "pointer" }}>
        <Fills id={id} />
        {at !== null && at < days.length && <rect x={x(at) - band / 2} y={TOP - 6} width={band} height={HEIGHT - TOP - BOTTOM + 6} fill="var(--hover)" />}
        {axis.ticks.map((each) => (
          <g key={each}>
            <line x1={left} x2={width - RIGHT} y1={y(each)} y2={y(each)} stroke={each === 0 ? "var(--line-strong)" : "var(--line)"} />
            <text x={left - 8} y={y(each) + 4} textAnchor="end">{tick(each)}</text>
          </g>
        ))}
        {days.map((day, index) => (
          <g key={day.label} opacity={day.open ? 0.5 : 1}>
            {stacked(day, tones).map((part) => <rect key={String(part.tone)} x={x(index) - bar / 2} y={y(part.high)} width={bar} height={Math.max(0, y(part.low) - y(part.high))} fill={fillOf(part.tone, id)} stroke={part.tone === "idle" ? "var(--text)" : "var(--page)"} strokeWidth="1.25" />)}
          </g>
        ))}
        {days.map((day, index) => (index % every(band) === 0 ? <text key={day.label} x={x(index)} y={HEIGHT - 6} textAnchor="middle">{day.label}</text> : null))}
        {placed(marks, days, x, y).map((mark) => (
          <g key={mark.letter} className="bars-mark"><circle cx={mark.x} cy={mark.y} r="8" /><text x={mark.x} y={mark.y + 3.5} textAnchor="middle">{mark.letter}</text></g>
        ))}
      </svg>
    </div>
  );
}

/** How wide a box is, also once it changed. */
export function useWidth(): [React.RefObject<HTMLDivElement | null>, number] {
  const box = useRef<HTMLDivElement>(null);
  const [width, setWidth] = useState(560);
  useLayoutEffect(() => setWidth(box.current?.clientWidth ?? 560), []);
  useEffect(() => {
    const watching = new ResizeObserver(([entry]) => entry && setWidth(entry.contentRect.width));
    if (box.current) watching.observe(box.current);
    return () => watching.disconnect();
  }, []);
  return [box, width];
}

const summed = (day: BarDay, counts: (value: number) => boolean) => day.values.reduce((sum, value) => (counts(value) ? sum + value : sum), 0);
const every = (band: number) => Math.max(1, Math.ceil(24 / band));

type Part = { tone: Tone; low: number; high: number };

/** The parts of a bar: those above zero from the axis up, those below it from there down. */
function stacked(day: BarDay, tones: readonly Tone[]): Part[] {
  let [up, down] = [0, 0];
  return tones.flatMap((tone, index): Part[] => {
    const value = day.values[index] ?? 0;
    if (value > 0) return [{ tone, low: up, high: (up += value) }];
    return value < 0 ? [{ tone, high: down, low: (down += value) }] : [];
  });
}

type Scale = (value: number) => number;

/** Where letters stand: above their bars, and above each other where they would meet. */
function placed(marks: readonly BarMark[], days: readonly BarDay[], x: Scale, y: Scale) {
  const found: { letter: string; x: number; y: number }[] = [];
  for (const mark of marks) {
    const day = days[mark.day];
    if (!day) continue;
    const at = x(mark.day);
    let height = y(summed(day, (value) => value > 0)) - 12;
    for (const other of found.toSorted((one, another) => another.y - one.y)) {
      if (Math.abs(other.x - at) < MARK && Math.abs(other.y - height) < MARK) height = other.y - MARK;
    }
    found.push({ letter: mark.letter, x: at, y: Math.max(9, height) });
  }
  return found;
}
