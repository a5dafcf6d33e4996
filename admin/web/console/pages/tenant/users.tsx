// A tenant's users: who is known, and closing them.

import { useState } from "react";
import { DataTable, type Column } from "../../../shared/components/data-table";
import { LoadMore, usePages } from "../../../shared/components/load-more";
import { Section } from "../../../shared/components/section";
import { StateShape } from "../../../shared/components/state";
import { api, answered } from "../../../shared/api";
import { useSession } from "../../../shared/session";
import { AddUser, CloseUser, type User } from "../../../shared/users/user-edits";
import { useScrollTo } from "./scroll-to";
import { date } from "../../../shared/limits/limit-words";

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
