// What somebody is told whose role sees a page but changes nothing there. The buttons are absent, not grey.

import { useSession } from "../shared/session";

const ROLES: Record<string, string> = { admin: "Admin", billing: "Finance", developer: "Developer", viewer: "Viewer" };

/** A role as people call it. */
export const roleName = (role: string) => ROLES[role] ?? role;

/** `operation`: what the role would need; `what`: the words for it, as "make, rotate or delete keys". */
export function ReadOnly({ operation, what }: { operation: string; what: string }) {
  const { me, may } = useSession();
  if (may(operation)) return null;
  return (
    <p className="read-only" role="note">
      <b>Your role is {roleName(me.role)}:</b> you see what is here but cannot {what}. An admin of your tenant can.
    </p>
  );
}
