// What the address of the limits' page holds: the budget whose dialog is open. Pure.

export type LimitSearch = { budget?: string };

const ID_MAX = 100;

export function limitSearchOf(given: Record<string, unknown>): LimitSearch {
  const { budget } = given;
  return typeof budget === "string" && budget ? { budget: budget.slice(0, ID_MAX) } : {};
}
