// Months and days of a tenant as its pages write them. Pure.

const NAMES = ["January", "February", "March", "April", "May", "June", "July", "August", "September", "October", "November", "December"];

/** November, of 2026-11. */
export function monthName(month: string): string {
  return NAMES[Number(month.slice(5, 7)) - 1] ?? month;
}

/** The day of a date, without a zero before it. */
export const dayOf = (date: string) => String(Number(date.slice(8, 10)));
