// The tenant's users: whom its keys act for. They are known by the names that its own services give them.

import { Button } from "@mantine/core";
import { getRouteApi } from "@tanstack/react-router";
import { useState } from "react";
import { DataTable, type Column } from "../../../shared/components/data-table";
import { LoadMore, usePages } from "../../../shared/components/load-more";
import { Section } from "../../../shared/components/section";
import { Unanswered } from "../../../shared/components/unanswered";
import { StateShape } from "../../../shared/components/state";
import { api, answered } from "../../../shared/api";
import { useSession } from "../../../shared/session";
import { AddUser, CloseUser, type User } from "../../../shared/users/user-edits";
import { zonedDay } from "../../../shared/zoned";
import { NameSearch } from "../../name-search";
import { OldFigures } from "../../old-figures";
import { ReadOnly } from "../../read-only";
import { useZone } from "../../../shared/zone";
import { useTenant } from "../../tenant";
import { userSearchOf } from "./search-params";

const route = getRouteApi("/users");

export function UsersPage() {
  const { id, name: called } = useTenant();
  const { may } = useSession();
  const { name = "" } = route.useSearch();
  const navigate = route.useNavigate();
  const [opened, setOpened] = useState<User | "new" | null>(null);
  const zone = useZone().name;
  const { items, more, asked } = usePages<User>(["users", id, name], (after) => answered(api.GET("/api/tenants/{tenant}/users", { params: { path: { tenant: id }, query: { name, after } } })));
  const columns: Column<User>[] = [
    { title: "User", cell: (user) => <b><bdi>{user.user}</bdi></b> },
    { title: "State", phone: "end", cell: (user) => <span className="state"><StateShape state={user.closed ? "cancelled" : "well"} /> {user.closed ? "closed" : "open"}</span> },
    { title: "Known since", right: true, cell: (user) => zonedDay(user.created, zone) },
  ];
  if (may("users.close")) columns.push({ title: "", number: true, cell: (user) => <button type="button" className="link" aria-label={`${user.closed ? "Reopen" : "Close"} ${user.user}`} onClick={() => setOpened(user)}>{user.closed ? "Reopen…" : "Close…"}</button> });
  return (
    <>
      <header className="page-head">
        <div><h1 className="page-title">Users</h1><p className="soft">Whom your keys act for, by the names that your own services give them. Days are those of {zone}.</p></div>
        {may("users.create") && <Button onClick={() => setOpened("new")}>Add user</Button>}
      </header>
      <OldFigures />
      <ReadOnly operation="users.close" what="add or close users" />
      <Section title="All users" note="in the order in which they became known">
        <NameSearch what="users" value={name} onChange={(text) => void navigate({ search: userSearchOf({ name: text }), replace: true })} />
        {items ? (items.length ? <DataTable label="Users" columns={columns} rows={items} keyOf={(user) => user.id} /> : <p className="soft">{name ? "No user matches." : "Nobody is known yet. Whom a key names becomes known with their first request."}</p>) : <Unanswered asked={asked} />}
        <LoadMore more={more} what="users" />
      </Section>
      {opened === "new" && <AddUser tenant={id} called={called} onClose={() => setOpened(null)} />}
      {opened && opened !== "new" && <CloseUser tenant={id} user={opened} onClose={() => setOpened(null)} />}
    </>
  );
}
