// A request's life as a waterfall: step, why, bar, when it began, how long it took. Waiting is hatched, moving
// striped, an instant a diamond: the shape says it before the colour does.

import { decimal, NOBODY_KNOWS } from "../format";
import type { Life, LifeStep } from "./life";
import "./waterfall.css";

export function Waterfall({ life }: { life: Life }) {
  const [every, end] = scale(life.total / 1000);
  const ticks = Array.from({ length: Math.floor(end / every + 1e-9) + 1 }, (_, index) => index * every).filter((tick) => tick < end * 0.97);
  const digits = every >= 1 ? 0 : every >= 0.1 ? 1 : every >= 0.01 ? 2 : 3;
  return (
    <table className="table waterfall" aria-label="Its life">
      <thead>
        <tr>
          <th scope="col">Step</th><th scope="col"><span className="unseen">Why</span></th>
          <th scope="col" className="waterfall-line"><span className="unseen">When</span>{ticks.map((tick) => <span key={tick} className="waterfall-tick" style={{ left: `${(tick / end) * 100}%` }} aria-hidden>{decimal(tick, digits)} s</span>)}</th>
          <th scope="col" className="number">At, s</th><th scope="col" className="number">Took, s</th>
        </tr>
      </thead>
      <tbody>{life.steps.map((step, index) => <Row key={`${step.name} ${index}`} step={step} ticks={ticks} end={end * 1000} of={end} />)}</tbody>
    </table>
  );
}

function Row({ step, ticks, end, of }: { step: LifeStep; ticks: readonly number[]; end: number; of: number }) {
  const left = Math.min(100, (step.at / end) * 100);
  return (
    <tr>
      <th scope="row">{step.name}</th>
      <td className="soft waterfall-why">{step.why}</td>
      <td className="waterfall-line" aria-hidden>
        {ticks.map((tick) => <span key={tick} className="waterfall-grid" style={{ left: `${(tick / of) * 100}%` }} />)}
        {step.kind === "instant" ? <span className="waterfall-instant" style={{ left: `${left}%` }} /> : (
          <span className={`waterfall-bar ${step.kind} ${step.open ? "open" : ""}`} style={{ left: `${left}%`, width: `${((step.took ?? 0) / end) * 100}%` }} />
        )}
      </td>
      <td className="number soft waterfall-at">{decimal(step.at / 1000)}</td>
      <td className="number">{step.took === null ? NOBODY_KNOWS : decimal(step.took / 1000, step.took < 10 ? 3 : 2)}</td>
    </tr>
  );
}

/** The step of the axis and its end, both in seconds: at most eight steps of 1, 2, 4 or 5. Pure. */
export function scale(seconds: number): [every: number, end: number] {
  const whole = Math.max(seconds, 0.01) * 1.04;
  for (let power = 0.001; power < 1e7; power *= 10)
    for (const factor of [1, 2, 4, 5]) if ((factor * power) * 8 >= whole) return [factor * power, whole];
  return [whole / 8, whole];
}
