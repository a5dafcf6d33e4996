// Names of the projects and keys that limits and budgets are of: their rows tell ids.

import { useQuery } from "@tanstack/react-query";
import { answered, api, everyItem } from "../../../shared/api";
import { useSession } from "../../../shared/session";

/** Rows whose `of` names a project or key by its name, where it has one. */
export function useOwnerNames(tenant: string): <Row extends { scope: string; of: string }>(rows: readonly Row[] | undefined) => Row[] | undefined {
  const { may } = useSession();
  const path = { tenant };
  const { data } = useQuery({
    queryKey: ["names of projects and keys", tenant],
    queryFn: async () => {
      const projects = may("projects.list") ? await everyItem((query) => answered(api.GET("/api/tenants/{tenant}/projects", { params: { path, query } }))) : [];
      const keys = may("keys.list") ? await everyItem((query) => answered(api.GET("/api/tenants/{tenant}/keys", { params: { path, query } }))) : [];
      return new Map([...projects.map((each) => [each.project, each.name] as const), ...keys.map((each) => [each.key, each.name || each.prefix] as const)]);
    },
    staleTime: 60_000,
  });
  const named = (id: string) => data?.get(id) ?? id;
  return (rows) => rows?.map((row) => ({ ...row, of: named(row.of) }));
}
