// What the address of an explanation says: a day or a month, by what its groups are, which group. Pure.

export const FACETS = ["key", "model", "user", "project", "cost_center", "pool", "hour", "day"] as const;
export type ChargeFacet = (typeof FACETS)[number];
/** `of`: a group's id; empty: what is of no one; not there: none is chosen. `show`: how many requests. */
export type ExplainSearch = { day?: string; month?: string; by?: ChargeFacet; of?: string; show?: number };

export const FACET_WORDS: Record<ChargeFacet, { one: string; many: string }> = {
  key: { one: "key", many: "keys" },
  model: { one: "model", many: "models" },
  user: { one: "user", many: "users" },
  project: { one: "project", many: "projects" },
  cost_center: { one: "cost center", many: "cost centers" },
  pool: { one: "pool", many: "pools" },
  hour: { one: "hour", many: "hours" },
  day: { one: "day", many: "days" },
};

const SHOWN = [8, 50, 100];

/** Only what a link can mean: the rest of an address is left out. */
export function explainSearchOf(given: Record<string, unknown>): ExplainSearch {
  const text = (name: string) => (typeof given[name] === "string" || typeof given[name] === "number" ? String(given[name]) : undefined);
  const [day, month, by, of] = [text("day"), text("month"), text("by"), text("of")];
  const show = Number(given["show"]);
  return {
    ...(day ? { day } : month ? { month } : {}),
    ...(FACETS.some((each) => each === by) ? { by: by as ChargeFacet } : {}),
    ...(of === undefined ? {} : { of }),
    ...(SHOWN.includes(show) && show !== SHOWN[0] ? { show } : {}),
  };
}

/** How many more the next step shows; undefined: there is none. */
export const nextShown = (show: number) => SHOWN.find((each) => each > show);
