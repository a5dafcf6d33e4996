// Facts in rows: what it is at the left, soft; what it says at the right.

import type { ReactNode } from "react";
import "./facts.css";

export type Fact = readonly [label: ReactNode, value: ReactNode];

/** Rows of facts. `boxed`: a preview within a dialog. */
export function Facts({ facts, boxed, label }: { facts: readonly Fact[]; boxed?: boolean; label?: string }) {
  return (
    <dl className={boxed ? "fact-rows boxed" : "fact-rows"} aria-label={label}>
      {facts.map(([name, value], index) => <div key={index}><dt>{name}</dt><dd>{value}</dd></div>)}
    </dl>
  );
}
