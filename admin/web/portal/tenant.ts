// The tenant whose portal this is.

import { useQuery } from "@tanstack/react-query";
import { answered, api, type Schemas } from "../shared/api";
import { useSession } from "../shared/session";

/** `id`: the member's tenant; `name`: as people know it, its id until that is read; `facts`: what `tenants show` tells. */
export function useTenant(): { id: string; name: string; facts: Schemas["ShownTenant"] | undefined } {
  const { me } = useSession();
  const id = me.tenant ?? "";
  const { data } = useQuery({
    queryKey: ["tenant", id],
    queryFn: () => answered(api.GET("/api/tenants/{tenant}", { params: { path: { tenant: id } } })),
    staleTime: 60_000,
  });
  return { id, name: data?.name ?? id, facts: data };
}
