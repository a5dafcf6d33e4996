// What somebody is told whose role sees a page but changes nothing there. The buttons are absent, not grey.

import { useQuery } from "@tanstack/react-query";
import { api, answered } from "../shared/api";
import { useSession } from "../shared/session";
import { roleName } from "./roles";
import { useTenant } from "./tenant";

/** `operation`: what the role would need; `what`: the words for it, as "make, rotate or delete keys". */
export function ReadOnly({ operation, what }: { operation: string; what: string }) {
  const { me, may } = useSession();
  if (may(operation)) return null;
  return (
    <p className="read-only" role="note">
      <b>Your role is {roleName(me.role)}:</b> you see what is here but cannot {what}. <Whom />
    </p>
  );
}

const NAMED_MAX = 3;

/** Who can, by name. */
export function Whom() {
  const { id, name } = useTenant();
  const { data } = useQuery({ queryKey: ["admins", id], queryFn: () => answered(api.GET("/api/tenants/{tenant}/admins", { params: { path: { tenant: id }, query: { limit: NAMED_MAX } } })), staleTime: 60_000 });
  const names = data?.items.map((each) => each.name) ?? [];
  return (
    <>
      Ask an admin of <bdi>{name}</bdi>
      {names.map((each, index) => <span key={index}>{index === 0 ? ": " : index === names.length - 1 ? " or " : ", "}<bdi>{each}</bdi></span>)}.
    </>
  );
}
