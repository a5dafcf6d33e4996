// What the Spend page's address says: the month, how the days are stacked, compared and shown, and a day. Pure.

export const STACKED_BY = ["model", "project", "cost_center", "user", "key", "pool"] as const;
const MEASURES = ["cost", "tokens"] as const;
const SHOWN = ["chart", "table"] as const;
const AGAINST = ["days", "month"] as const;

export type SpendSearch = {
  month?: string;
  by?: (typeof STACKED_BY)[number];
  measure?: (typeof MEASURES)[number];
  show?: (typeof SHOWN)[number];
  against?: (typeof AGAINST)[number];
  day?: string;
};

/** What is none, and what is the default anyway, is left out. */
export function spendSearchOf(given: Record<string, unknown>): SpendSearch {
  const found: SpendSearch = {};
  if (/^\d{4}-(0[1-9]|1[0-2])$/.test(String(given["month"]))) found.month = String(given["month"]);
  if (/^\d{4}-\d{2}-\d{2}$/.test(String(given["day"]))) found.day = String(given["day"]);
  const by = oneOf(STACKED_BY, given["by"]);
  if (by && by !== "model") found.by = by;
  const measure = oneOf(MEASURES, given["measure"]);
  if (measure && measure !== "cost") found.measure = measure;
  const show = oneOf(SHOWN, given["show"]);
  if (show && show !== "chart") found.show = show;
  const against = oneOf(AGAINST, given["against"]);
  if (against) found.against = against; // the default is another one for a month that is over
  return found;
}

const oneOf = <T extends string>(values: readonly T[], given: unknown) => values.find((each) => each === given);
