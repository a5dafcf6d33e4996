// Requests of all tenants, by filters in the URL.

import { Link, useNavigate, useSearch } from "@tanstack/react-router";
import type { ReactNode } from "react";
import { filterOf } from "../../shared/requests/filter";
import { RequestsList } from "../../shared/requests/list";

export function RequestsPage() {
  const filter = useSearch({ from: "/requests" });
  const navigate = useNavigate();
  const change = (changed: object) => void navigate({ to: "/requests", search: (was) => filterOf({ ...was, ...changed }) });
  const clear = () => void navigate({ to: "/requests", search: filter.state ? { state: filter.state } : {} });
  return (
    <>
      <h1 className="unseen">Requests</h1>
      <RequestsList filter={filter} change={change} clear={clear} Link={RequestLink} own={null} zone="UTC" first="A first one: parley chat." />
    </>
  );
}

function RequestLink({ id, tenant, children }: { id: string; tenant: string; children: ReactNode }) {
  return <Link to="/requests/$request" params={{ request: id }} search={tenant ? { tenant } : {}} title={id}>{children}</Link>;
}
