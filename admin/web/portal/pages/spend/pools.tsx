// What the tenant's own pools cost while idle: by day, with what they are committed to and how long requests waited.

import { useState } from "react";
import { Section } from "../../../shared/components/section";
import { Failed, useFailure } from "../../../shared/components/unanswered";
import { StackedBars } from "../../../shared/components/stacked-bars";
import { Swatch, type Tone } from "../../../shared/components/bar-fills";
import { answered, api, type Schemas } from "../../../shared/api";
import { centsOf, centsText, changeText, roundingOf } from "../../../shared/cents";
import { decimal, lasting, money, percent } from "../../../shared/format";
import { useLive } from "../../../shared/live";
import { useZone } from "../../../shared/zone";
import { zonedDay } from "../../../shared/zoned";
import { dayOf, monthName } from "./months";
import "./pools.css";

type Pool = Schemas["OwnPoolFacts"];

const EVERY_MS = 60_000;
const TONES: readonly Tone[] = [1, "idle"];

/** A section a pool; nothing where the tenant has none of its own. */
export function PoolsSections({ tenant, month }: { tenant: string; month?: string | undefined }) {
  const query = month ? { month } : {};
  const asked = useLive(["spend.pools", tenant, query], () => answered(api.GET("/api/tenants/{tenant}/spend/pools", { params: { path: { tenant }, query } })), EVERY_MS);
  const [{ data }, failure] = [asked, useFailure(asked)];
  if (failure) return <Section title="What do our own pools cost while idle?"><Failed problem={failure} ask={asked.refetch} /></Section>;
  return <>{data?.pools.map((pool) => <OwnPool key={pool.pool} pool={pool} month={data.month} open={!month} />)}</>;
}

function OwnPool({ pool, month, open }: { pool: Pool; month: string; open: boolean }) {
  const [tabled, setTabled] = useState(false);
  const turn = <button type="button" className="link" onClick={() => setTabled(!tabled)}>{tabled ? "Show as chart" : "Show as table"}</button>;
  return (
    <Section title={`What does our own pool ${pool.pool} cost while idle?`} end={turn}>
      <p className="soft own-pool-lead">{poolWords(pool, useZone().name)}</p>
      <div className="own-pool">{tabled ? <Days pool={pool} open={open} /> : <Bars pool={pool} open={open} />}<Sums pool={pool} month={month} /></div>
    </Section>
  );
}

/** In the tenant's `zone`: what is reserved until when, how idle it was, how long requests waited. */
export function poolWords(pool: Pool, zone: string): string {
  const [first] = pool.commitments;
  const held = pool.commitments.length > 1 ? `${gpus(pool.commitments.reduce((sum, each) => sum + each.gpus, 0))} reserved, the last until ${untilOf(pool.commitments.at(-1)?.until, zone)}. ` : first ? `${gpus(first.gpus)} reserved until ${untilOf(first.until, zone)} at ${money(first.rate)} a GPU-hour. ` : "";
  const idle = pool.ready_gpu_seconds ? `${percent(pool.idle_gpu_seconds / pool.ready_gpu_seconds)} % of their time nothing ran. ` : "No GPU was ready in this month. ";
  const wait = pool.longest_wait_ms === null ? "" : `The longest wait of the last 7 days was ${lasting((pool.longest_wait_ms ?? 0) / 1000)}`;
  const used = pool.busiest ? pool.busiest.busy_gpu_seconds / pool.busiest.ready_gpu_seconds : 0;
  const busiest = pool.busiest ? `${wait ? ", and in the" : "In the"} busiest hour ${percent(used)} % were used` : "";
  return `${held}${held || !pool.ready_gpu_seconds ? idle : idle.replace("their", "its GPUs’")}${wait}${busiest}${wait || busiest ? "." : ""}`;
}

const gpus = (number: number) => `${number} GPU${number === 1 ? "" : "s"}`;
const untilOf = (at: string | null | undefined, zone: string) => (at ? zonedDay(at, zone) : "then");
const hours = (seconds: number) => seconds / 3600;

function Bars({ pool, open }: { pool: Pool; open: boolean }) {
  const [at, setAt] = useState<number | null>(null);
  const days = pool.days.map((day, index) => ({ label: dayOf(day.day), open: open && index === pool.days.length - 1, values: [hours(day.busy_gpu_seconds), hours(day.ready_gpu_seconds - day.busy_gpu_seconds)] }));
  const day = at === null ? undefined : pool.days[at];
  return (
    <div>
      <StackedBars days={days} tones={TONES} at={at} onAt={setAt} label={`GPU-hours of ${pool.pool} by day: used below, idle above`} tick={(value) => `${decimal(value, value % 1 ? 1 : 0)} h`} />
      <p className="note own-pool-day">{day ? `${day.day}: ${decimal(hours(day.busy_gpu_seconds), 1)} h used, ${decimal(hours(day.ready_gpu_seconds - day.busy_gpu_seconds), 1)} h idle` : ""}</p>
    </div>
  );
}

function Days({ pool, open }: { pool: Pool; open: boolean }) {
  return (
    <div className="scroll own-pool-days" role="group" aria-label={`Days of ${pool.pool}`} tabIndex={0}>
      <table className="table">
        <thead><tr><th scope="col">Day</th><th scope="col" className="number">Used, h</th><th scope="col" className="number">Idle, h</th><th scope="col" className="number">Ready, h</th></tr></thead>
        <tbody>
          {pool.days.map((day, index) => <tr key={day.day}><th scope="row" className="nowrap">{day.day}{open && index === pool.days.length - 1 && <span className="soft"> open</span>}</th><td className="number">{decimal(hours(day.busy_gpu_seconds), 1)}</td><td className="number">{decimal(hours(day.ready_gpu_seconds - day.busy_gpu_seconds), 1)}</td><td className="number">{decimal(hours(day.ready_gpu_seconds), 1)}</td></tr>)}
        </tbody>
      </table>
    </div>
  );
}

/** GPU-hours and cost of used and idle time. */
function Sums({ pool, month }: { pool: Pool; month: string }) {
  const rounding = roundingOf([pool.used, pool.idle], pool.cost);
  const last = pool.days.at(-1);
  return (
    <table className="table" aria-label={`Cost of ${pool.pool}`}>
      <thead><tr><th scope="col">{last && pool.days.length > 1 ? `1 to ${dayOf(last.day)} ${monthName(month)}` : monthName(month)}</th><th scope="col" className="number">GPU-hours</th><th scope="col" className="number">Cost</th></tr></thead>
      <tbody>
        <tr><td><Swatch tone={1} />Used</td><td className="number">{decimal(hours(pool.busy_gpu_seconds), 1)}</td><td className="number">{centsText(centsOf(pool.used))}</td></tr>
        <tr><td><Swatch tone="idle" />Idle</td><td className="number">{decimal(hours(pool.idle_gpu_seconds), 1)}</td><td className="number">{centsText(centsOf(pool.idle))}</td></tr>
        {rounding !== 0n && <tr className="rounding"><td>Rounding to cents</td><td /><td className="number">{changeText(rounding)}</td></tr>}
      </tbody>
      <tfoot><tr><th scope="row">{pool.commitments.length ? "Reserved" : "Ready"}</th><td className="number">{decimal(hours(pool.ready_gpu_seconds), 1)}</td><td className="number">{money(pool.cost)}</td></tr></tfoot>
    </table>
  );
}
