// What a statement's lines may sum up, and what the address says of it. Pure.

export const STATEMENT_BY = [
  ["project", "Project"],
  ["model", "Model"],
  ["user", "User"],
  ["key", "Key"],
  ["cost_center", "Cost center"],
  ["pool", "Pool"],
  ["day", "Day"],
] as const;
export type StatementBy = (typeof STATEMENT_BY)[number][0];

/** Which month and what, of an address; what is none is left out. */
export function statementOf(given: Record<string, unknown>): { month?: string; by?: StatementBy } {
  const by = STATEMENT_BY.find(([value]) => value === given["by"])?.[0];
  const month = typeof given["month"] === "string" && /^\d{4}-(0[1-9]|1[0-2])$/.test(given["month"]) ? given["month"] : undefined;
  return { ...(month ? { month } : {}), ...(by ? { by } : {}) };
}
