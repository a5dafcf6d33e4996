// What a tenant's address says: its statement's month and lines, and which connections. Pure.

import { statementOf, type StatementBy } from "./statement-by";

export type TenantSearch = { month?: string; by?: StatementBy; connections?: "open" | "ended" };

/** What is none is left out. */
export function tenantSearchOf(given: Record<string, unknown>): TenantSearch {
  const state = given["connections"];
  return { ...statementOf(given), ...(state === "open" || state === "ended" ? { connections: state } : {}) };
}
