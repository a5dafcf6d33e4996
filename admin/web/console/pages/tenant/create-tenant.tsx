import { NativeSelect, TextInput } from "@mantine/core";
import { useNavigate } from "@tanstack/react-router";
import { useState } from "react";
import { EditDialog, terms } from "../../../shared/components/edit-dialog";
import { api, answered } from "../../../shared/api";

const PRIORITIES = ["interactive", "standard", "bulk"] as const;

/** A new tenant, whose page opens when it is made. */
export function CreateTenant({ onClose }: { onClose: () => void }) {
  const navigate = useNavigate();
  const [name, setName] = useState("");
  const [priority, setPriority] = useState<(typeof PRIORITIES)[number]>("interactive");
  return (
    <EditDialog
      title="Create a tenant"
      save="Create"
      onClose={onClose}
      typed={name.trim() ? JSON.stringify({ name, priority_max: priority }) : ""}
      send={(how) => answered(api.POST("/api/tenants", { params: terms(how), body: { name: name.trim(), priority_max: priority, reason: how.reason } }))}
      preview={(made) => <p className="soft">{made.name} pays by the price book {made.price_book}, by invoice until it has a wallet, and gets one project, default.</p>}
      saved={(made) => void navigate({ to: "/tenants/$tenant", params: { tenant: made.name } })}
    >
      {(errorOf) => (
        <>
          <TextInput label="Name" description="Nobody else has it." value={name} onChange={(event) => setName(event.currentTarget.value)} error={errorOf("name")} maxLength={200} autoComplete="off" spellCheck={false} data-autofocus />
          <NativeSelect label="Priority up to" value={priority} onChange={(event) => setPriority(event.currentTarget.value as typeof priority)} data={[...PRIORITIES]} error={errorOf("priority_max")} />
        </>
      )}
    </EditDialog>
  );
}
