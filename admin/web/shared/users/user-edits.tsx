// Dialogs of users: making one known, closing them, letting them in again.

import { TextInput } from "@mantine/core";
import { useState } from "react";
import { EditDialog, terms } from "../components/edit-dialog";
import { api, answered, type Schemas } from "../api";

export type User = Schemas["UserFacts"];

export function AddUser({ tenant, called = tenant, onClose }: { tenant: string; called?: string; onClose: () => void }) {
  const [user, setUser] = useState("");
  return (
    <EditDialog
      title={`Add a user of ${called}`}
      save="Add"
      onClose={onClose}
      typed={user.trim() ? JSON.stringify({ user }) : ""}
      send={(how) => answered(api.POST("/api/tenants/{tenant}/users", { params: { path: { tenant }, ...terms(how) }, body: { user: user.trim(), reason: how.reason } }))}
      preview={(would) => (would.new === false ? <p className="soft">This user is known already.</p> : <p className="soft">Keys may be bound to them, and limits set.</p>)}
    >
      {(errorOf) => <TextInput label="User" description="As its own services call them." value={user} onChange={(event) => setUser(event.currentTarget.value)} error={errorOf("user")} maxLength={200} autoComplete="off" data-autofocus />}
    </EditDialog>
  );
}

export function CloseUser({ tenant, user, onClose }: { tenant: string; user: User; onClose: () => void }) {
  const path = { tenant, user: user.user };
  const again = user.closed !== null;
  return (
    <EditDialog
      title={`${again ? "Reopen" : "Close"} ${user.user}`}
      save={again ? "Reopen" : "Close user"}
      harmful={!again}
      {...(again ? {} : { confirm: user.user })}
      onClose={onClose}
      typed=""
      send={(how) => {
        const [params, body] = [{ path, ...terms(how) }, { reason: how.reason }];
        return answered(again ? api.POST("/api/tenants/{tenant}/users/{user}/reopen", { params, body }) : api.POST("/api/tenants/{tenant}/users/{user}/close", { params, body }));
      }}
      preview={() => <p>{again ? "Keys and tickets that name them are let in again." : "Keys bound to them, and keys and tickets that name them, are refused from now on. They can be let in again."}</p>}
    />
  );
}
