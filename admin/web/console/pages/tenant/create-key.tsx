// Dialogs of keys: made and rotated ones are shown once, a revoked one is named first.

import { NativeSelect, TextInput } from "@mantine/core";
import { useState } from "react";
import { CopyOnce } from "../../../shared/components/command";
import { EditDialog, terms } from "../../../shared/components/edit-dialog";
import { Facts } from "../../../shared/components/facts";
import { api, answered, type Schemas } from "../../../shared/api";
import { moment } from "../../../shared/format";
import type { Key } from "./keys";

type NewKey = Schemas["NewKey"];
const ONCE = "It is shown this once: only a hash of it is stored.";
const secretOf = (made: NewKey) => made.secret ? <CopyOnce label="The new key" secret={made.secret} note={ONCE} /> : <p>The key was made by an earlier call, which showed it.</p>;

export function CreateKey({ tenant, onClose }: { tenant: string; onClose: () => void }) {
  const [name, setName] = useState("");
  const [project, setProject] = useState("default");
  const [user, setUser] = useState("");
  const [expires, setExpires] = useState("");
  const body = { project: project.trim(), name: name.trim(), ...(user.trim() ? { user: user.trim() } : {}), ...(expires.trim() ? { expires: expires.trim() } : {}) };
  return (
    <EditDialog
      title={`Create a key of ${tenant}`}
      save="Create key"
      onClose={onClose}
      typed={JSON.stringify({ user: "", expires: "", ...body })}
      send={(how) => answered(api.POST("/api/tenants/{tenant}/keys", { params: { path: { tenant }, ...terms(how) }, body: { ...body, reason: how.reason } }))}
      preview={({ key }) => <Facts boxed label="The key" facts={[["Speaks for", key.user || "users that it names"], ["May", key.scopes.join(", ")], ["Ends", key.expires ? moment(key.expires) : "never"]]} />}
      saved={secretOf}
    >
      {(errorOf) => (
        <>
          <div className="edit-pair">
            <TextInput label="Name" description="As its people are to know it." value={name} onChange={(event) => setName(event.currentTarget.value)} error={errorOf("name")} maxLength={200} autoComplete="off" data-autofocus />
            <TextInput label="Project" description="What its use is booked to." value={project} onChange={(event) => setProject(event.currentTarget.value)} error={errorOf("project")} autoComplete="off" />
          </div>
          <div className="edit-pair">
            <TextInput label="User" description="Empty: it may name users itself." value={user} onChange={(event) => setUser(event.currentTarget.value)} error={errorOf("user")} autoComplete="off" />
            <TextInput label="Ends" description="Like 2027-01-31; empty: never." value={expires} onChange={(event) => setExpires(event.currentTarget.value)} error={errorOf("expires")} autoComplete="off" />
          </div>
        </>
      )}
    </EditDialog>
  );
}

const OVERLAPS = [[0, "none: the old one ends now"], [1, "1 hour"], [24, "1 day"], [168, "7 days"]] as const;

export function RotateKey({ tenant, of, onClose }: { tenant: string; of: Key; onClose: () => void }) {
  const [hours, setHours] = useState(24);
  const path = { tenant, key: of.key };
  return (
    <EditDialog
      title={`Rotate ${of.name || of.prefix}`}
      save="Rotate"
      onClose={onClose}
      typed={JSON.stringify({ overlap_hours: hours })}
      send={(how) => answered(api.POST("/api/tenants/{tenant}/keys/{key}/rotate", { params: { path, ...terms(how) }, body: { overlap_hours: hours, reason: how.reason } }))}
      preview={({ key }) => <Facts boxed label="The key after it" facts={[["The new one may", key.scopes.join(", ")], ["It ends", key.expires ? moment(key.expires) : "never"]]} />}
      saved={secretOf}
    >
      {(errorOf) => <NativeSelect label="Overlap" description="So long the old one still works." value={String(hours)} onChange={(event) => setHours(Number(event.currentTarget.value))} data={OVERLAPS.map(([value, label]) => ({ value: String(value), label }))} error={errorOf("overlap_hours")} data-autofocus />}
    </EditDialog>
  );
}

export function RevokeKey({ tenant, of, onClose }: { tenant: string; of: Key; onClose: () => void }) {
  return (
    <EditDialog
      title={`Revoke ${of.name || of.prefix}`}
      save="Revoke"
      harmful
      confirm={of.name || of.prefix}
      note="It cannot be taken back."
      onClose={onClose}
      typed=""
      send={(how) => answered(api.POST("/api/tenants/{tenant}/keys/{key}/revoke", { params: { path: { tenant, key: of.key }, ...terms(how) }, body: { reason: how.reason } }))}
      preview={() => <p>Whoever holds it is refused at once, and its open connections are closed. What it has running goes on.</p>}
    />
  );
}
