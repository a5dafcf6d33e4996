// The pools that serve a tenant: its own, those it is let into, and shared ones that run something of it now.

import { Link } from "@tanstack/react-router";
import { Facts, type Fact } from "../../../shared/components/facts";
import { LoadMore, usePages } from "../../../shared/components/load-more";
import { Section } from "../../../shared/components/section";
import { api, answered, type Schemas } from "../../../shared/api";
import { count } from "../../../shared/format";
import { useSession } from "../../../shared/session";
import type { TenantNow } from "./figures";
import type { Tenant } from "../../../shared/limits/limit-words";

type Pool = Schemas["PoolFacts"];

export function Pools({ tenant, now }: { tenant: Tenant; now: TenantNow | undefined }) {
  const { may } = useSession();
  return may("pools.list") ? <Served tenant={tenant} now={now} /> : null;
}

function Served({ tenant, now }: { tenant: Tenant; now: TenantNow | undefined }) {
  const ask = (after: string) => answered(api.GET("/api/pools", { params: { query: { tenant: tenant.tenant, after, limit: 20 } } }));
  const { items, error, more } = usePages<Pool>(["pools of", tenant.tenant], ask);
  const running = new Map((now?.pools ?? []).map((each) => [each.pool, each.running]));
  const own = (items ?? []).map((pool) => factOf(pool.pool, running.get(pool.pool), pool.tenant === tenant.name ? "dedicated" : "let in", pool.state));
  const named = new Set((items ?? []).map((pool) => pool.pool));
  const shared = [...running].filter(([pool]) => !named.has(pool)).map(([pool, number]) => factOf(pool, number, "shared"));
  const facts = [...own, ...shared];
  return (
    <Section title="Pools" note="running now">
      {error ? <p className="soft">{error.detail}</p> : !items ? <span className="skeleton" /> : facts.length ? <Facts label="Pools" facts={facts} /> : <p className="soft">None of its own: it is served by the shared pool of each model.</p>}
      <LoadMore more={more} what="pools" />
    </Section>
  );
}

function factOf(pool: string, running: number | undefined, how: string, state = "active"): Fact {
  const words = [running === undefined ? "" : `${count(running)} running`, how, state === "active" ? "" : state].filter(Boolean).join(", ");
  return [<Link to="/pools/$pool" params={{ pool }}>{pool}</Link>, words];
}
