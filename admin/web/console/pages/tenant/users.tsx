// A tenant's users: who is known, and closing them.

import { TextInput } from "@mantine/core";
import { useState } from "react";
import { DataTable, type Column } from "../../../shared/components/data-table";
import { EditDialog, terms } from "../../../shared/components/edit-dialog";
import { LoadMore, usePages } from "../../../shared/components/load-more";
import { Section } from "../../../shared/components/section";
import { StateShape } from "../../../shared/components/state";
import { api, answered, type Schemas } from "../../../shared/api";
import { useSession } from "../../../shared/session";
import { useScrollTo } from "./scroll-to";
import { date } from "../../../shared/limits/limit-words";

type User = Schemas["UserFacts"];

export function Users({ tenant }: { tenant: string }) {
  const { may } = useSession();
  return may("users.list") ? <UserList tenant={tenant} /> : null;
}

function UserList({ tenant }: { tenant: string }) {
  const { may } = useSession();
  const [opened, setOpened] = useState<User | "new" | null>(null);
  const { items, error, more } = usePages<User>(["users", tenant], (after) => answered(api.GET("/api/tenants/{tenant}/users", { params: { path: { tenant }, query: { after, limit: 20 } } })));
  useScrollTo("users", items !== undefined);
  const columns: Column<User>[] = [
    { title: "User", cell: (user) => <b>{user.user}</b> },
    { title: "State", phone: "end", cell: (user) => <span className="state"><StateShape state={user.closed ? "cancelled" : "well"} /> {user.closed ? "closed" : "open"}</span> },
    { title: "Known since", right: true, cell: (user) => date(user.created) },
    { title: "", number: true, cell: (user) => may(user.closed ? "users.reopen" : "users.close") && <button type="button" className="link" aria-label={`${user.closed ? "Reopen" : "Close"} ${user.user}`} onClick={() => setOpened(user)}>{user.closed ? "Reopen…" : "Close…"}</button> },
  ];
  const end = may("users.create") && <button type="button" className="link" onClick={() => setOpened("new")}>Add user…</button>;
  return (
    <div id="users" className="linked">
      <Section title="Users" note="in the order in which they became known" end={end}>
        {items ? (items.length ? <DataTable label="Users" columns={columns} rows={items} keyOf={(user) => user.id} /> : <p className="soft">Nobody is known yet. Who a key names becomes known with their first request.</p>) : error ? <p className="soft">{error.detail}</p> : <span className="skeleton" />}
        <LoadMore more={more} what="users" />
      </Section>
      {opened === "new" && <AddUser tenant={tenant} onClose={() => setOpened(null)} />}
      {opened && opened !== "new" && <CloseUser tenant={tenant} user={opened} onClose={() => setOpened(null)} />}
    </div>
  );
}

function AddUser({ tenant, onClose }: { tenant: string; onClose: () => void }) {
  const [user, setUser] = useState("");
  return (
    <EditDialog
      title={`Add a user of ${tenant}`}
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

function CloseUser({ tenant, user, onClose }: { tenant: string; user: User; onClose: () => void }) {
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
