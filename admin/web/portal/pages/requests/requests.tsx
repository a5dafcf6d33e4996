// The live log of the tenant's requests: those that run, those that ended and those that were refused, by filters in
// the URL.

import { useQuery } from "@tanstack/react-query";
import { Link, useNavigate, useSearch } from "@tanstack/react-router";
import type { ReactNode } from "react";
import { answered, api } from "../../../shared/api";
import { filterOf } from "../../../shared/requests/filter";
import { RequestsList } from "../../../shared/requests/list";
import { useSession } from "../../../shared/session";
import { OldFigures } from "../../old-figures";
import { useZone } from "../../../shared/zone";
import { useTenant } from "../../tenant";

const PROJECTS_MAX = 1000;

export function RequestsPage() {
  const filter = useSearch({ from: "/requests" });
  const navigate = useNavigate();
  const { id } = useTenant();
  const projects = useProjects(id);
  const zone = useZone().name;
  const change = (changed: object) => void navigate({ to: "/requests", search: (was) => filterOf({ ...was, ...changed }) });
  const clear = () => void navigate({ to: "/requests", search: filter.state ? { state: filter.state } : {} });
  return (
    <>
      <h1 className="page-title">Requests</h1>
      <p className="meta">Times are those of {zone}. Rows tell who asked what of which model, never what was said.</p>
      <OldFigures />
      <RequestsList filter={filter} change={change} clear={clear} Link={RequestLink} own={projects} zone={zone} first="A first one shows up here while it is answered." />
    </>
  );
}

/** Names of the tenant's projects by their ids, as far as the member may know them. */
function useProjects(tenant: string): ReadonlyMap<string, string> {
  const { may } = useSession();
  const { data } = useQuery({
    queryKey: ["projects", tenant, "names"],
    queryFn: () => answered(api.GET("/api/tenants/{tenant}/projects", { params: { path: { tenant }, query: { limit: PROJECTS_MAX } } })),
    enabled: may("projects.list"),
    staleTime: 30_000,
  });
  return new Map((data?.items ?? []).map((each) => [each.project, each.name]));
}

function RequestLink({ id, children }: { id: string; tenant: string; children: ReactNode }) {
  const { may } = useSession();
  if (!may("charges.explain")) return <span title={id}>{children}</span>;
  return <Link to="/requests/$request" params={{ request: id }} title={id}>{children}</Link>;
}
