// One pool: how it does beside how it should, its workers, whose requests it has, what waits, and what can be done.

import { getRouteApi, Link } from "@tanstack/react-router";
import { Facts, type Fact } from "../../../shared/components/facts";
import { LineChart } from "../../../shared/components/line-chart";
import { Section } from "../../../shared/components/section";
import { Sentence } from "../../../shared/components/sentence";
import { Told } from "../../../shared/components/told";
import { count, decimal, money, percent } from "../../../shared/format";
import { useFreshness } from "../../../shared/freshness";
import { useSession } from "../../../shared/session";
import { sentence } from "../../../shared/words";
import { useDesired, useHours, useMoney, useOverview, useRequests, useShares, useWorkers } from "./asked";
import { DesiredPool, PoolChanges } from "./desired";
import { TenantsHere, WaitingHere } from "./here";
import { costCommand } from "./money";
import { PoolMoves } from "./moves";
import { MovesNow } from "./moves-now";
import { WorkerTiles } from "./tiles";
import { emptyPool, lineOf, stateOf, whoseOf, type Desired, type Listed, type Pool } from "./words";
import "../tenants.css";
import "./pool.css";

const route = getRouteApi("/pools/$pool");

export function PoolPage() {
  const { pool: name } = route.useParams();
  const { data, error, dataUpdatedAt } = useOverview();
  const stale = useFreshness(dataUpdatedAt);
  const desired = useDesired().get(name);
  const [rows, shares] = [useWorkers(name), useShares(name)];
  const { shown, requests, nowMs } = useRequests(name);
  if (!data) return error ? <Sentence state="unknown" text="Nobody knows this pool now." detail={sentence(error.detail)} /> : <Loading />;
  const pool = data.pools.find((each) => each.pool === name) ?? (desired && emptyPool(desired));
  if (!pool) return <NoPool pool={name} />;
  return (
    <div className={stale ? "stale" : ""}>
      <Head pool={pool} desired={desired} pools={data.pools} requests={requests} />
      <MovesNow pool={name} />
      <Section title="Workers" note="KV in use · running / slots · age of the step">
        {pool.workers.length ? <WorkerTiles pool={name} workers={pool.workers} rows={rows} /> : <NoWorkers pool={name} desired={desired} />}
      </Section>
      <div className="pool">
        <div>
          {shown && requests && <TenantsHere requests={requests} shares={shares} />}
          {shown && requests && <WaitingHere requests={requests} nowMs={nowMs} />}
          <Busy pool={name} />
        </div>
        <div>{desired ? <DesiredPool pool={pool} desired={desired} /> : <About pool={pool} />}<Money pool={name} shared={pool.shared} /></div>
      </div>
    </div>
  );
}

type HeadOf = { pool: Pool; desired: Desired | undefined; pools: readonly Pool[]; requests: readonly Listed[] | undefined };

function Head({ pool, desired, pools, requests }: HeadOf) {
  const { may } = useSession();
  const { state } = stateOf(pool, desired);
  return (
    <header className="page-head">
      <div>
        <h1>{pool.pool} <span className="tag">{whoseOf(pool)}</span></h1>
        <p className={state === "well" ? "soft" : state}><Told text={lineOf(pool, desired)} /></p>
      </div>
      <div className="ends">
        {requests && may("requests.list") && <PoolMoves pool={pool} pools={pools} requests={requests} />}
        {desired && <PoolChanges desired={desired} />}
      </div>
    </header>
  );
}

function NoWorkers({ pool, desired }: { pool: string; desired: Desired | undefined }) {
  if (!desired) return <p className="soft">It has none. Start some with <code>parley supervisor --pool {pool} --workers 1</code>.</p>;
  if (desired.workers && desired.state === "active") return <p className="soft">None of {count(desired.workers)} desired workers is there yet. <code>parley fleet</code> starts them, or a supervisor on its node.</p>;
  return <p className="soft">It has none, as desired.</p>;
}

/** GPUs that were ready and those with requests, hour by hour. */
function Busy({ pool }: { pool: string }) {
  const { may } = useSession();
  const hours = useHours()(pool);
  if (!may("pools.hours")) return null;
  if (!hours) return <Section title="Busy and ready" note="GPUs, last 24 hours"><p className="soft">No GPU of this pool was ready in a whole hour of the last 24 that a biller has booked.</p></Section>;
  const lines = [
    { name: "Busy GPUs", values: hours.busy, colour: "var(--series-1)", filled: true },
    { name: "Ready GPUs", values: hours.ready, colour: "var(--series-4)", dashed: true },
  ];
  return <Section title="Busy and ready" note="GPUs, last 24 hours"><LineChart times={hours.times} lines={lines} label={`Busy and ready GPUs of ${pool}`} /></Section>;
}

/** What is, of a pool of which nobody said what it should be. */
function About({ pool }: { pool: Pool }) {
  const facts: Fact[] = [
    ["Workers", count(pool.workers.length)],
    ["Model", pool.model || "nobody knows yet"],
    ["Whose", pool.shared ? "shared" : pool.tenants.join(", ")],
    ["Running", `${count(pool.running)} of ${count(pool.slots)} slots`],
    ["KV in use", `${percent(pool.kv)} %`],
  ];
  return <Section title="Now"><Facts label="Now" facts={facts} /></Section>;
}

function Money({ pool, shared }: { pool: string; shared: boolean }) {
  const { may } = useSession();
  const { of, shown } = useMoney();
  const its = of(pool);
  if (!shown) return null;
  if (!its) return <Section title="Money" note="last 24 hours"><p className="soft">No GPU of this pool was ready in the last 24 hours.</p></Section>;
  const usd = (amount: Parameters<typeof money>[0]) => (amount ? `${money(amount)} USD` : "not known");
  const facts: Fact[] = [
    ["GPU hours", decimal(its.hours, 1)],
    ["Busy", its.busy === null ? "no GPU was ready" : `${percent(its.busy)} %`],
    ["Commitment used", its.committed === null ? "none" : `${percent(its.committed)} %`],
    ["Earned", usd(its.earned)],
    ["Cost", usd(its.cost)],
    ["Idle cost", usd(its.idleCost)],
    [<b key="margin">Margin per GPU-hour</b>, <b key="amount">{usd(its.margin)}</b>],
  ];
  return (
    <Section title="Money" note="last 24 hours">
      <Facts label="Money" facts={facts} />
      {shared && may("chargeback.idle") && <p className="note"><Link to="/idle-cost" search={{ pool }}>Idle cost of a month, by tenants’ shares</Link></p>}
      {its.unpriced.map((type) => <p key={type} className="note">Nobody set what a GPU of type {type} costs: <code>{costCommand(type)}</code></p>)}
    </Section>
  );
}

function NoPool({ pool }: { pool: string }) {
  return <div className="empty"><h1>There is no pool {pool}</h1><p>It has no worker and nothing runs there.</p><Link to="/pools">All pools</Link></div>;
}

function Loading() {
  return <div aria-busy="true" aria-label="Loading" role="status"><span className="skeleton title" /><span className="skeleton rows" /></div>;
}
