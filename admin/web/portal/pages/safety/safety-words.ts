// What the safety page says of rules and of what they found. Pure.

import type { Schemas } from "../../../shared/api";
import { count } from "../../../shared/format";
import type { Floor } from "../../../shared/safety/edit-policy";
import type { Action, Kind } from "../../../shared/safety/policy-rules";

/** A rule that holds, and whose it is. */
export type Held = { kind: Kind; name: string; action: Action; prompt: Action; scope: string };
export type Found = { category: string; of: string; action: string; verdicts: number; requests: number };
type Day = Omit<Schemas["SafetyDay"], "window">;

/** The rules of a merged document, Parley's first. */
export function heldRules(document: Record<string, unknown>): Held[] {
  const rules = (["detectors", "patterns", "words"] as const).flatMap((kind) => ((document[kind] ?? []) as Partial<Held>[]).map((rule) => ({ kind, name: rule.name ?? "", action: rule.action ?? null, prompt: rule.prompt ?? null, scope: rule.scope ?? "platform" })));
  return rules.toSorted((one, other) => Number(other.scope === "platform") - Number(one.scope === "platform"));
}

/** What Parley does at least, by detector. */
export function floorOf(rules: readonly Held[]): Floor {
  return new Map(rules.filter((rule) => rule.kind === "detectors" && rule.scope === "platform").map((rule) => [rule.name, { action: rule.action, prompt: rule.prompt }]));
}

/** What was found in some days, the most frequent first. */
export function foundBy(days: readonly Day[]): Found[] {
  const sums = new Map<string, Found>();
  for (const { category, of, action, verdicts, requests } of days.flatMap((day) => day.found)) {
    const key = `${category} ${of} ${action}`;
    const sum = sums.get(key) ?? { category, of, action, verdicts: 0, requests: 0 };
    sums.set(key, { ...sum, verdicts: sum.verdicts + verdicts, requests: sum.requests + requests });
  }
  return [...sums.values()].toSorted((one, other) => other.verdicts - one.verdicts);
}

/** The page's sentence. */
export function leadOf(rules: readonly Held[], days: readonly Day[]): string {
  const own = rules.filter((rule) => rule.scope !== "platform").length;
  const floor = rules.length - own;
  const sum = (of: (day: Day) => number) => days.reduce((total, day) => total + of(day), 0);
  const refused = sum((day) => day.refused.reduce((total, each) => total + each.prompts, 0));
  const held = rules.length ? `${count(floor)} ${floor === 1 ? "rule" : "rules"} of Parley and ${count(own)} of yours hold.` : "No rule holds: nothing is looked for.";
  return days.length ? `${held} In 30 days ${count(sum((day) => day.blocked))} of ${count(sum((day) => day.requests))} answers were stopped and ${count(refused)} prompts refused.` : held;
}
