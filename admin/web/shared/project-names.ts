// The names of a tenant's projects, for pages that have their ids.

import { useQuery } from "@tanstack/react-query";
import { api, answered, everyItem } from "./api";
import { useSession } from "./session";

/** The names of projects by their ids. */
export function useProjectNames(tenant: string): Map<string, string> {
  const { may } = useSession();
  const ask = () => everyItem((query) => answered(api.GET("/api/tenants/{tenant}/projects", { params: { path: { tenant }, query } })));
  const { data } = useQuery({ queryKey: ["project names", tenant], queryFn: ask, enabled: may("projects.list") });
  return new Map((data ?? []).map((project) => [project.project, project.name]));
}
