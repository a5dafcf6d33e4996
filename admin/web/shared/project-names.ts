// The names of a tenant's projects, for pages that have their ids.

import { useQuery } from "@tanstack/react-query";
import { api, answered } from "./api";
import { useSession } from "./session";

/** The names of projects by their ids. */
export function useProjectNames(tenant: string): Map<string, string> {
  const { may } = useSession();
  const ask = () => answered(api.GET("/api/tenants/{tenant}/projects", { params: { path: { tenant }, query: { limit: 1000 } } }));
  const { data } = useQuery({ queryKey: ["project names", tenant], queryFn: ask, enabled: may("projects.list") });
  return new Map((data?.items ?? []).map((project) => [project.project, project.name]));
}
