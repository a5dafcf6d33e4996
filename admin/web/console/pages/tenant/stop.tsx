// Another plan for a tenant, and what stops it: throttling, closing, and letting it in again.

import { NativeSelect } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { useState } from "react";
import { EditDialog, terms } from "../../../shared/components/edit-dialog";
import { Facts } from "../../../shared/components/facts";
import { api, answered, answeredWithTag } from "../../../shared/api";
import { count } from "../../../shared/format";
import { useTerms } from "./about";
import { EditTerms } from "./terms";
import type { Tenant } from "../../../shared/limits/limit-words";

export function ChangePlan({ tenant, tag, onClose }: { tenant: Tenant; tag: string | undefined; onClose: () => void }) {
  const [began] = useState({ plan: tenant.plan_id ?? "", name: tenant.plan ?? "none", tag });
  const [plan, setPlan] = useState(began.plan);
  const { data } = useQuery({ queryKey: ["plans"], queryFn: () => answered(api.GET("/api/plans", { params: { query: { limit: 1000 } } })) });
  const plans = (data?.items ?? []).filter((each) => !each.ended || each.plan === began.plan);
  const path = { tenant: tenant.tenant };
  return (
    <EditDialog
      title={`Change the plan of ${tenant.name}`}
      save="Change plan"
      onClose={onClose}
      tag={began.tag}
      reread={async () => (await answeredWithTag(api.GET("/api/tenants/{tenant}", { params: { path } }))).tag}
      typed={plan === began.plan ? "" : JSON.stringify({ plan })}
      send={(how) => answered(api.PUT("/api/tenants/{tenant}/plan", { params: { path, ...terms(how) }, body: { plan: plan || null, reason: how.reason } }))}
      preview={(would) => (
        <Facts boxed label="What changes" facts={[["Plan", `${began.name} → ${would.plan ?? "none"}`], ["Price book", would.price_book], ["Priority up to", would.priority_max], ["Limits and place", "within a second"], ["Prices", "from the next request on"]]} />
      )}
    >
      {(errorOf) => <NativeSelect label="Plan" description="A price book, a priority or terms of its own stay." value={plan} onChange={(event) => setPlan(event.currentTarget.value)} data={[{ value: "", label: "no plan" }, ...plans.map((each) => ({ value: each.plan, label: each.name }))]} error={errorOf("plan")} data-autofocus />}
    </EditDialog>
  );
}

export function Throttle({ tenant, onClose }: { tenant: string; onClose: () => void }) {
  const { data } = useTerms(tenant);
  return data ? <EditTerms tenant={tenant} began={data} only="slots_max" title={`Throttle ${tenant}`} onClose={onClose} /> : null;
}

export function CancelAll({ tenant, onClose }: { tenant: string; onClose: () => void }) {
  return (
    <EditDialog
      title={`Cancel what ${tenant} runs`}
      save="Cancel all"
      harmful
      confirm={tenant}
      note="It cannot be taken back."
      onClose={onClose}
      typed=""
      send={(how) => answered(api.POST("/api/tenants/{tenant}/requests/cancel", { params: { path: { tenant }, ...terms(how) }, body: { reason: how.reason } }))}
      preview={(would) => <p>{would.cancelled ? `${count(would.cancelled)} open requests end at once` : "It has no open request now; those that come meanwhile end"}: what was answered so far stays and is billed. New requests are let in again right after.</p>}
      saved={(done) => <p role="status"><b>{count(done.cancelled)} cancelled.</b>{done.not_ended_yet ? ` ${count(done.not_ended_yet)} have not ended yet.` : ""}</p>}
    />
  );
}

export function CloseTenant({ tenant, onClose }: { tenant: string; onClose: () => void }) {
  return (
    <EditDialog
      title={`Close ${tenant}`}
      save="Close tenant"
      harmful
      confirm={tenant}
      note="It can be reopened."
      onClose={onClose}
      typed=""
      send={(how) => answered(api.POST("/api/tenants/{tenant}/close", { params: { path: { tenant }, ...terms(how) }, body: { reason: how.reason } }))}
      preview={() => <p>All its keys are refused from now on, and its connections are closed. What it still runs is finished and billed; its books stay.</p>}
    />
  );
}

export function ReopenTenant({ tenant, onClose }: { tenant: string; onClose: () => void }) {
  return (
    <EditDialog
      title={`Reopen ${tenant}`}
      save="Reopen"
      onClose={onClose}
      typed=""
      send={(how) => answered(api.POST("/api/tenants/{tenant}/reopen", { params: { path: { tenant }, ...terms(how) }, body: { reason: how.reason } }))}
      preview={() => <p>Its keys are let in again, with the limits that it had.</p>}
    />
  );
}
