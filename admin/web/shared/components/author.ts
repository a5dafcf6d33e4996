// Who did something, by name. Members stand in the audit log by their id, so that they can be erased.

import { useQuery } from "@tanstack/react-query";
import { api, answered } from "../api";
import { useSession } from "../session";

/** Names of members by their ids, while they have one and as far as this caller may know them. */
export function useNameOf(): (id: string) => string | undefined {
  const { me, may } = useSession();
  const tenant = me.tenant ?? "";
  const { data } = useQuery({
    queryKey: ["members' names", tenant],
    queryFn: () => answered(api.GET("/api/people", { params: { query: { tenant, limit: 1000 } } })),
    enabled: tenant !== "" && may("people.list"),
    staleTime: 60_000,
  });
  return (id) => data?.items.find((each) => each.person === id)?.name;
}
