// Dialogs of projects: making one, closing it, letting its keys in again.

import { TextInput } from "@mantine/core";
import { useState } from "react";
import { EditDialog, terms } from "../components/edit-dialog";
import { api, answered, type Schemas } from "../api";

export type Project = Schemas["ListedProject"];

export function CreateProject({ tenant, called = tenant, onClose }: { tenant: string; called?: string; onClose: () => void }) {
  const [name, setName] = useState("");
  return (
    <EditDialog
      title={`Create a project of ${called}`}
      save="Create"
      onClose={onClose}
      typed={name.trim() ? JSON.stringify({ name }) : ""}
      send={(how) => answered(api.POST("/api/tenants/{tenant}/projects", { params: { path: { tenant }, ...terms(how) }, body: { name: name.trim(), reason: how.reason } }))}
      preview={() => <p className="soft">Keys may be made for it, and what they use is booked to it.</p>}
    >
      {(errorOf) => <TextInput label="Name" value={name} onChange={(event) => setName(event.currentTarget.value)} error={errorOf("name")} maxLength={200} autoComplete="off" data-autofocus />}
    </EditDialog>
  );
}

export function CloseProject({ tenant, project, onClose }: { tenant: string; project: Project; onClose: () => void }) {
  const path = { tenant, project: project.project };
  const again = project.closed !== null;
  return (
    <EditDialog
      title={`${again ? "Reopen" : "Close"} project ${project.name}`}
      save={again ? "Reopen" : "Close project"}
      harmful={!again}
      {...(again ? {} : { confirm: project.name })}
      onClose={onClose}
      typed=""
      send={(how) => {
        const [params, body] = [{ path, ...terms(how) }, { reason: how.reason }];
        return answered(again ? api.POST("/api/tenants/{tenant}/projects/{project}/reopen", { params, body }) : api.POST("/api/tenants/{tenant}/projects/{project}/close", { params, body }));
      }}
      preview={() => <p>{again ? "Its keys are let in again." : "Its keys are refused from now on, and their connections closed. It can be reopened."}</p>}
    />
  );
}
