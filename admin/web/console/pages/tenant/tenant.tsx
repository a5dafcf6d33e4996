// One tenant: is it within its limits, and all that it has and may.

import { Button, Menu } from "@mantine/core";
import { getRouteApi } from "@tanstack/react-router";
import { ChevronDown } from "lucide-react";
import { useState } from "react";
import { Sentence } from "../../../shared/components/sentence";
import { Strip } from "../../../shared/components/strip";
import { api, answered, answeredWithTag } from "../../../shared/api";
import { useFreshness } from "../../../shared/freshness";
import { useLive } from "../../../shared/live";
import { useSession } from "../../../shared/session";
import { sentence } from "../../../shared/words";
import { About } from "./about";
import { Audit } from "../../../shared/components/audit-list";
import { Browsers } from "./browsers";
import { Budgets } from "./budgets";
import { Connections } from "./connections";
import { CreateKey } from "../../../shared/api-keys/create-key";
import { Keys, NoKey, useKeysOf } from "./keys";
import { Limits } from "./limits";
import { stripOf, useNow } from "./figures";
import { Money } from "./money";
import { MovesNow } from "../pool/moves-now";
import { Pools } from "./pools";
import { Projects } from "./projects";
import { Safety } from "./safety";
import { Statement } from "./statement";
import { CancelAll, ChangePlan, CloseTenant, ReopenTenant, Throttle } from "./stop";
import { Users } from "./users";
import { verdictOf, type Budget, type Limit, type Tenant } from "../../../shared/limits/limit-words";
import "../tenants.css";
import "./tenant.css";

const route = getRouteApi("/tenants/$tenant");

export function TenantPage() {
  const { tenant } = route.useParams();
  const { may } = useSession();
  const asked = useLive(["tenant", tenant], () => answeredWithTag(api.GET("/api/tenants/{tenant}", { params: { path: { tenant } } })), 5000);
  const limits = useLimits(tenant);
  const budgets = useBudgets(tenant);
  const stale = useFreshness(limits.dataUpdatedAt || asked.dataUpdatedAt);
  const now = useNow(tenant, may("tenants.now"));
  const keys = useKeysOf(tenant);
  if (!asked.data) return asked.error ? <NoTenant tenant={tenant} status={asked.error.status} why={asked.error.detail} /> : <Loading />;
  const { data, tag } = asked.data;
  const [held, money] = [limits.data?.items ?? [], budgets.data?.items ?? []];
  const withoutKeys = may("keys.list") && keys.items?.length === 0;
  return (
    <div className={stale ? "stale" : ""}>
      <Head tenant={data} tag={tag} limits={held} budgets={money} withoutKeys={withoutKeys} />
      <MovesNow tenant={data.name} />
      {may("tenants.now") && <Strip items={stripOf({ tenant: data.name, now, requests: may("requests.find") })} label="Now" />}
      {withoutKeys && <NoKey tenant={data.name} />}
      <div className="tenant">
        <div className="tenant-main">
          {may("limits.list") && <Limits tenant={data} limits={limits.data?.items} />}
          {!withoutKeys && may("keys.list") && <Keys tenant={data.name} keys={keys} />}
          <Users tenant={data.name} />
          <Projects tenant={data.name} />
          <Statement tenant={data} />
          <Connections tenant={data.name} />
          <Browsers tenant={data.name} />
          <Audit tenant={data.tenant} />
        </div>
        <div className="tenant-side">
          <Money tenant={data} now={now} />
          <Budgets tenant={data.name} budgets={budgets.data?.items} />
          <Pools tenant={data} now={now} />
          <Safety tenant={data.name} />
          <About tenant={data} tag={tag} />
        </div>
      </div>
    </div>
  );
}

function useLimits(tenant: string) {
  const { may } = useSession();
  const ask = async () => (may("limits.list") ? answered(api.GET("/api/tenants/{tenant}/limits", { params: { path: { tenant }, query: { limit: 1000 } } })) : { items: [] as Limit[] });
  return useLive(["limits", tenant], ask);
}

function useBudgets(tenant: string) {
  const { may } = useSession();
  const ask = async () => (may("budgets.list") ? answered(api.GET("/api/tenants/{tenant}/budgets", { params: { path: { tenant }, query: { limit: 1000 } } })) : { items: [] as Budget[] });
  return useLive(["budgets", tenant], ask, 10_000);
}

type HeadProps = { tenant: Tenant; tag: string | undefined; limits: readonly Limit[]; budgets: readonly Budget[]; withoutKeys: boolean };

function Head({ tenant, tag, limits, budgets, withoutKeys }: HeadProps) {
  const { may } = useSession();
  const [opened, setOpened] = useState<"plan" | "throttle" | "cancel" | "close" | "reopen" | "key" | "">("");
  const verdict = verdictOf(tenant, limits, budgets);
  const close = () => setOpened("");
  const first = withoutKeys && may("keys.create");
  return (
    <header className="page-head">
      <div>
        <h1>{tenant.name} {tenant.plan && <span className="tag">{tenant.plan}</span>}{tenant.closed && <span className="tag">closed</span>}</h1>
        <p className={verdict.state === "well" ? "soft" : verdict.state}>{verdict.text}</p>
      </div>
      <div className="ends">
        {first && <Button onClick={() => setOpened("key")}>Create key…</Button>}
        {may("plans.assign") && <Button variant={first ? "default" : "filled"} onClick={() => setOpened("plan")}>Change plan…</Button>}
        {(may("tenants.close") || may("tenants.set_terms") || may("requests.cancel_all")) && (
          <Menu position="bottom-end" transitionProps={{ duration: 0 }} withinPortal={false} width={230}>
            <Menu.Target><Button variant="default" rightSection={<ChevronDown size={14} />}>Stop</Button></Menu.Target>
            <Menu.Dropdown>
              {may("tenants.set_terms") && <Menu.Item onClick={() => setOpened("throttle")}>Throttle…</Menu.Item>}
              {may("requests.cancel_all") && <Menu.Item onClick={() => setOpened("cancel")}>Cancel what it runs…</Menu.Item>}
              {may("tenants.close") && !tenant.closed && <Menu.Item onClick={() => setOpened("close")}>Close {tenant.name}…</Menu.Item>}
              {may("tenants.reopen") && tenant.closed && <Menu.Item onClick={() => setOpened("reopen")}>Reopen {tenant.name}…</Menu.Item>}
            </Menu.Dropdown>
          </Menu>
        )}
      </div>
      {opened === "plan" && <ChangePlan tenant={tenant} tag={tag} onClose={close} />}
      {opened === "throttle" && <Throttle tenant={tenant.name} onClose={close} />}
      {opened === "cancel" && <CancelAll tenant={tenant.name} onClose={close} />}
      {opened === "close" && <CloseTenant tenant={tenant.name} onClose={close} />}
      {opened === "reopen" && <ReopenTenant tenant={tenant.name} onClose={close} />}
      {opened === "key" && <CreateKey tenant={tenant.name} onClose={close} />}
    </header>
  );
}

function NoTenant({ tenant, status, why }: { tenant: string; status: number; why: string }) {
  if (status === 404) return <div className="empty"><h1>There is no tenant {tenant}</h1><p>The search finds tenants by how their name begins.</p></div>;
  return <Sentence state="unknown" text="Nobody knows this tenant now." detail={sentence(why)} />;
}

function Loading() {
  return <div aria-busy="true" aria-label="Loading" role="status"><span className="skeleton title" /><span className="skeleton rows" /></div>;
}
