// Which report the address names; what is none is left out. Pure.

export const FACTS = [
  ["cost_center", "Cost center"],
  ["project", "Project"],
  ["model", "Model"],
  ["user", "User"],
  ["key", "Key"],
  ["pool", "Pool"],
] as const;

/** One of FACTS, or `tag:` and a declared key. */
export type Fact = string;
export const TAG = "tag:";
const TAGGED = /^tag:[\w.-]{1,64}$/;

export type ReportSearch = { month?: string; as_of?: string; rows?: Fact; columns?: Fact; only?: string };

const textLike = (given: unknown, like: RegExp) => (typeof given === "string" && like.test(given) ? given : undefined);
const factOf = (given: unknown) => FACTS.find(([value]) => value === given)?.[0] ?? textLike(given, TAGGED);

export function reportOf(given: Record<string, unknown>): ReportSearch {
  const found: Record<string, string | undefined> = {
    month: textLike(given["month"], /^\d{4}-(0[1-9]|1[0-2])$/),
    as_of: textLike(given["as_of"], /^\d{4}-\d{2}-\d{2}$/),
    rows: factOf(given["rows"]),
    columns: factOf(given["columns"]),
    only: textLike(given["only"], /^[\w.-]{1,64}(=.{1,100})?$/su),
  };
  return Object.fromEntries(Object.entries(found).filter(([, value]) => value));
}
