// The bars of a bridge: each part begins where the one before it ended; zero is what the earlier days cost, so lengths are true.

import { Fills, useFills } from "../../../shared/components/bar-fills";
import type { Money } from "../../../shared/format";

/** Where a bar begins and ends, as a share of the width; `kind`: which way it goes, or a line of the whole. */
export type Step = { from: number; to: number; kind: "more" | "less" | "whole" | "none" };
export type Steps = { zero: number; start: Step; end: Step; parts: Step[] };

/** The bars of parts between two totals. Pure. */
export function stepsOf(before: Money, after: Money, parts: readonly Money[]): Steps {
  const sizes = parts.map((part) => unitsOf(part.nano));
  const ends: number[] = [];
  sizes.reduce((sum, size) => {
    ends.push(sum + size);
    return sum + size;
  }, 0);
  const whole = unitsOf(String(BigInt(after.nano) - BigInt(before.nano)));
  const [low, high] = [Math.min(0, whole, ...ends), Math.max(0, whole, ...ends)];
  const share = (value: number) => (high > low ? (value - low) / (high - low) : 0);
  const zero = share(0);
  return {
    zero,
    start: { from: zero, to: zero, kind: "none" },
    end: { from: Math.min(zero, share(whole)), to: Math.max(zero, share(whole)), kind: whole ? "whole" : "none" },
    parts: sizes.map((size, index) => {
      const [one, other] = [share((ends[index] ?? 0) - size), share(ends[index] ?? 0)];
      return { from: Math.min(one, other), to: Math.max(one, other), kind: size > 0 ? "more" : size < 0 ? "less" : "none" };
    }),
  };
}

const unitsOf = (nano: string) => Number(BigInt(nano) / 1000n) / 1_000_000;

const [BAR, THIN, LEAST] = [14, 3, 2];

/** The bar of one row; the line of zero goes through all rows. */
export function StepBar({ steps, at }: { steps: Steps; at: Step }) {
  const id = useFills();
  const percent = (value: number) => `${(value * 100).toFixed(3)}%`;
  const height = at.kind === "whole" ? THIN : BAR;
  const fill = { more: `url(#${id}-more)`, less: "var(--accent)", whole: "var(--soft)", none: "none" }[at.kind];
  const middle = { x: percent(at.from), y: "50%", height, transform: `translate(0 ${-height / 2})` };
  return (
    <svg className="step-bar" aria-hidden>
      <Fills id={id} />
      <line x1={percent(steps.zero)} x2={percent(steps.zero)} y1="0" y2="100%" stroke="var(--line-strong)" />
      {at.kind !== "none" && <rect {...middle} width={percent(at.to - at.from)} fill={fill} stroke={at.kind === "more" ? "var(--soft)" : "none"} />}
      {at.kind !== "none" && at.to - at.from < 0.004 && <rect {...middle} width={LEAST} fill={at.kind === "less" ? "var(--accent)" : "var(--soft)"} />}
    </svg>
  );
}
