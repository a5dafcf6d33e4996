// Amounts of money, for people. Pure.

/** @typedef {import("/web/client/answer.js").Cost} Cost */

const NANO_DIGITS = 9;
const SYMBOLS = new Map([
  ["usd", "$"],
  ["eur", "€"],
  ["gbp", "£"],
]);

/**
 * "$0.0000061": integer digits only, no float touches money.
 * @param {Cost} cost
 */
export function costText({ nano, currency }) {
  const digits = String(nano).padStart(NANO_DIGITS + 1, "0");
  const fraction = digits.slice(-NANO_DIGITS).replace(/0+$/, "").padEnd(2, "0");
  const amount = `${digits.slice(0, -NANO_DIGITS)}.${fraction}`;
  const symbol = SYMBOLS.get(currency.toLowerCase());
  return symbol ? symbol + amount : `${amount} ${currency.toUpperCase()}`;
}
