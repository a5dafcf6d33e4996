// Which report the address names; what is none is left out. Pure.

export const FACTS = [
  ["cost_center", "Cost center"],
  ["project", "Project"],
  ["model", "Model"],
  ["user", "User"],
  ["key", "Key"],
  ["pool", "Pool"],
] as const;
export type Fact = (typeof FACTS)[number][0];

export type ReportSearch = { month?: string; as_of?: string; rows?: Fact; columns?: Fact };

const factOf = (given: unknown) => FACTS.find(([value]) => value === given)?.[0];
const textLike = (given: unknown, like: RegExp) => (typeof given === "string" && like.test(given) ? given : undefined);

export function reportOf(given: Record<string, unknown>): ReportSearch {
  const month = textLike(given["month"], /^\d{4}-(0[1-9]|1[0-2])$/);
  const asOf = textLike(given["as_of"], /^\d{4}-\d{2}-\d{2}$/);
  const [rows, columns] = [factOf(given["rows"]), factOf(given["columns"])];
  return { ...(month ? { month } : {}), ...(asOf ? { as_of: asOf } : {}), ...(rows ? { rows } : {}), ...(columns ? { columns } : {}) };
}
