// Dialog by which a cost center is closed or reopened, and the input that finds one by its code.

import { Checkbox, TextInput } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { useId, useState } from "react";
import { api, answered, type Schemas } from "../api";
import { EditDialog, terms } from "../components/edit-dialog";
import { count } from "../format";

export type CostCenter = Schemas["CostCenterFacts"];

const OFFERED_MAX = 50;
const NAMED_MAX = 5;

interface CenterInputProps {
  tenant: string;
  label: string;
  description: string;
  value: string;
  onChange: (code: string) => void;
  error: string | undefined;
  disabled?: boolean;
  omitted?: string;
}

/** Offers the open cost centers that what is typed finds, but for `omitted`, an id. */
export function CenterInput({ tenant, label, description, value, onChange, error, disabled = false, omitted = "" }: CenterInputProps) {
  const offered = useId();
  const ask = () => answered(api.GET("/api/tenants/{tenant}/cost-centers", { params: { path: { tenant }, query: { name: value.trim(), limit: OFFERED_MAX } } }));
  const { data } = useQuery({ queryKey: ["cost centers offered", tenant, value.trim()], queryFn: ask, placeholderData: (before) => before });
  const open = data?.items.filter((each) => !each.closed && each.cost_center !== omitted) ?? [];
  return (
    <>
      <TextInput label={label} description={description} list={offered} value={value} onChange={(event) => onChange(event.currentTarget.value)} error={error} disabled={disabled} autoComplete="off" data-autofocus />
      <datalist id={offered}>{open.map((each) => <option key={each.cost_center} value={each.code} label={each.name ? `${each.code} ${each.name}` : each.code} />)}</datalist>
    </>
  );
}

export function CloseCostCenter({ tenant, center, onClose }: { tenant: string; center: CostCenter; onClose: () => void }) {
  return center.closed ? <Reopen tenant={tenant} center={center} onClose={onClose} /> : <Close tenant={tenant} center={center} onClose={onClose} />;
}

function Close({ tenant, center, onClose }: { tenant: string; center: CostCenter; onClose: () => void }) {
  const [heir, setHeir] = useState("");
  const [nobody, setNobody] = useState(false);
  const body = { move_to: nobody ? "" : heir.trim(), to_nobody: nobody };
  const path = { tenant, cost_center: center.cost_center };
  return (
    <EditDialog
      title={`Close cost center ${center.code}`}
      save="Close cost center"
      harmful
      onClose={onClose}
      typed={JSON.stringify(body)}
      send={(how) => answered(api.POST("/api/tenants/{tenant}/cost-centers/{cost_center}/close", { params: { path, ...terms(how) }, body: { ...body, reason: how.reason } }))}
      preview={(would) => <p>No project can be charged to it any more; reports keep what was. {would.moved.length > 0 ? <>{nobody ? "Nobody" : <bdi>{heir.trim()}</bdi>} pays from now on for {named(would.moved)}.</> : "It pays for no project."}</p>}
    >
      {(errorOf) => (
        <>
          <CenterInput tenant={tenant} label="Its projects are paid by" description="Another cost center’s code; empty where it pays for none." value={nobody ? "" : heir} onChange={setHeir} error={errorOf("move_to")} disabled={nobody} omitted={center.cost_center} />
          <Checkbox label="Nobody: what its projects use is the tenant’s own" checked={nobody} onChange={(event) => setNobody(event.currentTarget.checked)} />
        </>
      )}
    </EditDialog>
  );
}

function Reopen({ tenant, center, onClose }: { tenant: string; center: CostCenter; onClose: () => void }) {
  const path = { tenant, cost_center: center.cost_center };
  return (
    <EditDialog
      title={`Reopen cost center ${center.code}`}
      save="Reopen"
      onClose={onClose}
      typed=""
      send={(how) => answered(api.POST("/api/tenants/{tenant}/cost-centers/{cost_center}/reopen", { params: { path, ...terms(how) }, body: { reason: how.reason } }))}
      preview={() => <p>Projects may be charged to it again.</p>}
    />
  );
}

function named(projects: string[]): string {
  const [shown, more] = [projects.slice(0, NAMED_MAX).join(", "), projects.length - NAMED_MAX];
  return more > 0 ? `${shown} and ${count(more)} more` : shown;
}
