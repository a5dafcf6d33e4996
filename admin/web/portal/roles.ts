// Roles of members: what they are called, and what each sees and does. Pure.

export type MemberRole = "admin" | "billing" | "developer" | "viewer";

export const ROLES: Record<MemberRole, readonly [name: string, says: string]> = {
  admin: ["Admin", "sees everything; manages members, keys, projects and rules."],
  billing: ["Finance", "sees all money and exports it; changes nothing."],
  developer: ["Developer", "makes and rotates keys, sees and cancels requests with what each cost; sees no sums."],
  viewer: ["Viewer", "sees requests with what each cost, keys, projects, limits and budgets; changes nothing."],
};

/** A role as the portal calls it. */
export const roleName = (role: string) => ROLES[role as MemberRole]?.[0] ?? role;
export const roleSays = (role: string) => ROLES[role as MemberRole]?.[1] ?? "";
export const MEMBER_ROLES = Object.keys(ROLES) as MemberRole[];
