// Shapes of states: a shape first, then the word beside it, then a colour.

import { ArrowDownToLine, ArrowRight, Ban, Check, CircleDashed, CircleHelp, CircleX, Square, TriangleAlert, type LucideIcon } from "lucide-react";

export type StateName = "well" | "info" | "starting" | "moving" | "draining" | "warn" | "blocked" | "bad" | "cancelled" | "unknown";

const SHAPES: Record<StateName, [LucideIcon, string]> = {
  well: [Check, "soft"],
  info: [ArrowRight, "info"],
  starting: [CircleDashed, "info"],
  moving: [ArrowRight, "info"],
  draining: [ArrowDownToLine, "info"],
  warn: [TriangleAlert, "warn"],
  blocked: [Ban, "warn"],
  bad: [CircleX, "bad"],
  cancelled: [Square, "soft"],
  unknown: [CircleHelp, "soft"],
};

/** The shape of a state. `label`: its word, where none stands beside it. */
export function StateShape({ state, size = 14, label }: { state: StateName; size?: number; label?: string }) {
  const [Shape, colour] = SHAPES[state] ?? SHAPES.unknown;
  return label ? <Shape size={size} className={colour} role="img" aria-label={label} /> : <Shape size={size} className={colour} aria-hidden />;
}
