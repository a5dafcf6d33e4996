// What pools did and earned, and how busy they were. Pure.

import type { Schemas } from "../../../shared/api";
import type { Money } from "../../../shared/format";

export type Use = Schemas["PoolUseFacts"];
export type Hour = Schemas["PoolHour"];

/** What a pool did and earned in a window, all its owners and types of GPU together. Shares null: of nothing;
 * amounts null: nobody said what the types of GPU in `unpriced` cost. */
export type PoolMoney = { hours: number; busy: number | null; committed: number | null; earned: Money; cost: Money | null; idleCost: Money | null; margin: Money | null; unpriced: string[] };

export function moneyOf(uses: readonly Use[]): PoolMoney | null {
  if (!uses.length) return null;
  const seconds = (of: (use: Use) => number) => uses.reduce((sum, use) => sum + of(use), 0);
  const nano = (of: (use: Use) => bigint) => uses.reduce((sum, use) => sum + of(use), 0n);
  const usd = (value: bigint): Money => ({ nano: String(value), currency: "USD" });
  const [ready, reserved] = [seconds((use) => use.ready_gpu_seconds), seconds((use) => use.reserved_gpu_seconds)];
  const earned = nano((use) => BigInt(use.gpu.nano) + BigInt(use.tokens.nano));
  const known = uses.every((use) => use.cost !== null);
  const cost = nano((use) => BigInt(use.cost?.nano ?? 0));
  const idle = nano((use) => (use.ready_gpu_seconds ? (BigInt(use.cost?.nano ?? 0) * BigInt(use.idle_gpu_seconds)) / BigInt(use.ready_gpu_seconds) : 0n));
  return {
    hours: ready / 3600,
    busy: ready ? seconds((use) => use.busy_gpu_seconds) / ready : null,
    committed: reserved ? seconds((use) => use.committed_gpu_seconds) / reserved : null,
    earned: usd(earned),
    cost: known ? usd(cost) : null,
    idleCost: known ? usd(idle) : null,
    unpriced: [...new Set(uses.filter((use) => use.cost === null).map((use) => use.gpu_type))].toSorted(),
    margin: known && ready ? usd(((earned - cost) * 3600n) / BigInt(ready)) : null,
  };
}

/** How to say what a type of GPU costs. */
export const costCommand = (type: string) => `parley pools costs --gpu ${type} --hour 'AMOUNT USD'`;

/** GPUs that were ready and busy in each of the last 24 hours, on average; null: none was ready. */
export type BusyHours = { times: string[]; ready: (number | null)[]; busy: (number | null)[] };

export function busyHours(hours: readonly Hour[], now: number): BusyHours {
  const last = now - (now % 3_600_000);
  const times = Array.from({ length: 24 }, (_, index) => last - (24 - index) * 3_600_000);
  const of = new Map(hours.map((hour) => [hour.at ? Date.parse(hour.at) : 0, hour]));
  const gpus = (at: number, what: "ready_gpu_seconds" | "busy_gpu_seconds") => {
    const hour = of.get(at);
    return hour ? Math.round(hour[what] / 36) / 100 : null;
  };
  return { times: times.map((at) => new Date(at).toISOString()), ready: times.map((at) => gpus(at, "ready_gpu_seconds")), busy: times.map((at) => gpus(at, "busy_gpu_seconds")) };
}

/** The busy part of what was ready in these hours. */
export function shareOf({ ready, busy }: BusyHours): number | null {
  const [all, used] = [ready, busy].map((values) => values.reduce<number>((sum, value) => sum + (value ?? 0), 0)) as [number, number];
  return all ? used / all : null;
}
