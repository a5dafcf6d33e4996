// Dialogs of cost centers: making one, and which one pays for a project from when on.

import { Checkbox, NativeSelect, TextInput } from "@mantine/core";
import { useState } from "react";
import { EditDialog, terms } from "../../../shared/components/edit-dialog";
import { api, answered } from "../../../shared/api";
import { CenterInput } from "../../../shared/projects/close-cost-center";
import type { Project } from "../../../shared/projects/project-edits";
import { nextMonth, zonedMinute, zonedStart } from "../../../shared/zoned";

export function CreateCostCenter({ tenant, called, onClose }: { tenant: string; called: string; onClose: () => void }) {
  const [code, setCode] = useState("");
  const [name, setName] = useState("");
  const body = { code: code.trim(), name: name.trim() };
  return (
    <EditDialog
      title={`New cost center of ${called}`}
      save="Create"
      onClose={onClose}
      typed={body.code ? JSON.stringify(body) : ""}
      send={(how) => answered(api.POST("/api/tenants/{tenant}/cost-centers", { params: { path: { tenant }, ...terms(how) }, body: { ...body, reason: how.reason } }))}
      preview={() => <p className="soft">Projects may be charged to it. Its code stays.</p>}
    >
      {(errorOf) => (
        <div className="edit-pair">
          <TextInput label="Code" description="As your books call it." value={code} onChange={(event) => setCode(event.currentTarget.value)} error={errorOf("code")} maxLength={64} autoComplete="off" data-autofocus />
          <TextInput label="Name" description="What it is." value={name} onChange={(event) => setName(event.currentTarget.value)} error={errorOf("name")} maxLength={200} autoComplete="off" />
        </div>
      )}
    </EditDialog>
  );
}

export function ChargeTo({ tenant, project, zone, onClose }: { tenant: string; project: Project; zone: string; onClose: () => void }) {
  const [center, setCenter] = useState("");
  const [nobody, setNobody] = useState(false);
  const [month, setMonth] = useState("");
  const [next] = useState(() => nextMonth(new Date(), zone));
  const body = { cost_center: nobody ? "" : center.trim(), start: month ? zonedStart(month, zone).toISOString() : null };
  return (
    <EditDialog
      title={`Charge ${project.name} to`}
      save="Charge"
      onClose={onClose}
      typed={body.cost_center || nobody ? JSON.stringify(body) : ""}
      send={(how) => answered(api.POST("/api/tenants/{tenant}/projects/{project}/charge-to", { params: { path: { tenant, project: project.project }, ...terms(how) }, body: { ...body, reason: how.reason } }))}
      preview={(would) => <p><bdi>{project.cost_center || "None"}</bdi> → <bdi>{would.cost_center || "None"}</bdi> from {zonedMinute(would.from, zone)} on{would.cost_center ? "" : ": what it uses is the tenant’s own"}. What was charged before stays where it was.</p>}
    >
      {(errorOf) => (
        <>
          <div className="edit-pair">
            <CenterInput tenant={tenant} label="Cost center" description="Its code; type to find it." value={nobody ? "" : center} onChange={setCenter} error={errorOf("cost_center")} disabled={nobody} />
            <NativeSelect label="From" description={zone} value={month} onChange={(event) => setMonth(event.currentTarget.value)} data={[{ value: "", label: "now" }, { value: next, label: `${next}, the next month` }]} error={errorOf("start")} />
          </div>
          <Checkbox label="Nobody pays: what it uses is the tenant’s own" checked={nobody} onChange={(event) => setNobody(event.currentTarget.checked)} />
        </>
      )}
    </EditDialog>
  );
}
