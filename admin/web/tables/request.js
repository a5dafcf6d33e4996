// "Explain this charge": all that is known of one request, by the function that `parley requests explain` asks.

import { exact, make, table } from "./parts.js";

/** @typedef {import("./parts.js").Cell} Cell */
/**
 * @typedef {{kind: string, meter: string, quantity: number, price_nano: number, amount_nano: number, cause: string}} Line
 * @typedef {{name: string, at_ms: number, after_ms: number}} Step
 * @typedef {{user: string, key: string, model: string, pool: string, reason: string, code: string, currency: string,
 *   amount_nano: number, cost_nano: number, owed_nano: number | null, claims: number, lines: Line[], steps: Step[],
 *   price: {book: string, book_name: string, version: number, why: string},
 *   paid: {grant: string, kind: string, amount_nano: number}[],
 *   months: {month: string, amount_nano: number, closed_ms: number | null}[]}} Booked
 * @typedef {{id: string, tenant: string, tenant_name: string, state: string, unread: string, booked: Booked | null,
 *   held_back: {reason: string, detail: string, resolution: string}[],
 *   refused: {minute_ms: number, code: string, why: string, number: number}[],
 *   holds: {state: string, input_tokens: number, granted: number, held_nano: number} | null,
 *   in_pool: {row: {pool: string, status: string, worker: string, tokens: number, prompt_tokens: number, claims: number}} | null}} Explained
 */

const count = new Intl.NumberFormat("en");

/** Ask when the form is sent, and show what is answered. @param {HTMLFormElement} form @param {HTMLElement} place */
export function explainRequests(form, place) {
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    const given = new FormData(form);
    const [id, tenant] = [String(given.get("id")).trim(), String(given.get("tenant")).trim()];
    if (!id) return;
    const query = tenant ? `?tenant=${encodeURIComponent(tenant)}` : "";
    try {
      const reply = await fetch(`/api/explained/${encodeURIComponent(id)}${query}`);
      const body = await reply.json();
      if (!reply.ok) throw new Error(body.detail ?? body.error.message);
      place.replaceChildren(closing(form, place), ...sections(body));
    } catch (error) {
      place.replaceChildren(make("p", "note", error instanceof Error ? error.message : "no answer"));
    }
  });
}

/** What takes the answer away again. @param {HTMLFormElement} form @param {HTMLElement} place */
function closing(form, place) {
  const button = make("button", "close", "Close");
  button.addEventListener("click", () => {
    place.replaceChildren();
    form.querySelector("input")?.focus();
  });
  return button;
}

/** @param {Explained} found */
function sections(found) {
  const facts = table(`Request ${found.id}`, ["Fact", ""], factsOf(found), "");
  facts.classList.add("facts");
  if (!found.booked) return [facts];
  const { lines, steps, currency } = found.booked;
  return [
    facts,
    table(
      "What it was billed",
      ["Kind", "Meter", "Quantity", "Price", "Amount", "Cause"],
      lines.map((each) => [
        { text: each.kind },
        { text: each.meter },
        { text: count.format(each.quantity), number: true },
        { text: priceOf(each, currency), number: true },
        { text: exact(each.amount_nano, currency), number: true },
        { text: each.cause },
      ]),
      "Nothing.",
    ),
    table(
      "Its time",
      ["Step", "At", "After"],
      steps.map((each) => [
        { text: each.name },
        { text: new Date(each.at_ms).toISOString() },
        { text: `${count.format(each.after_ms)} ms`, number: true },
      ]),
      "",
    ),
  ];
}

/** As price files say it: of one request, else for a million. @param {Line} line @param {string} currency */
function priceOf({ meter, price_nano }, currency) {
  if (meter === "request") return `${exact(Math.trunc(price_nano / 1_000_000), currency)} each`;
  return `${exact(price_nano, currency)} a million`;
}

/** @param {Explained} found @returns {Cell[][]} */
function factsOf(found) {
  /** @type {[string, string][]} */
  const facts = [
    ["State", found.state],
    ["Tenant", `${found.tenant_name} (${found.tenant})`],
  ];
  if (found.unread) facts.push(["Not looked at", found.unread]);
  if (found.booked) facts.push(...bookedFacts(found.booked));
  for (const each of found.held_back) facts.push(["Held back", `${each.reason}: ${each.detail}; ${each.resolution || "not decided"}`]);
  for (const each of found.refused) {
    const at = new Date(each.minute_ms).toISOString();
    facts.push(["Refused", `${each.code} ${each.why}, ${at}, ${count.format(each.number)} in that minute`]);
  }
  if (found.in_pool) {
    const { row } = found.in_pool;
    const how = `${count.format(row.prompt_tokens)} prompt and ${count.format(row.tokens)} sampled tokens`;
    facts.push(["In its pool", `${row.pool}: ${row.status}, worker ${row.worker || "none"}, ${how}, ${row.claims} claims`]);
  }
  if (found.holds?.state === "open") {
    const { input_tokens, granted, held_nano } = found.holds;
    facts.push(["Holds", `${count.format(input_tokens)} input and ${count.format(granted)} output tokens, ${exact(held_nano, "usd")} of each budget`]);
  }
  return facts.map(([name, text]) => [{ text: name }, { text }]);
}

/** @param {Booked} booked @returns {[string, string][]} */
function bookedFacts(booked) {
  const { price } = booked;
  /** @type {[string, string][]} */
  const facts = [
    ["Whose", `user ${booked.user || "none"}, key ${booked.key}`],
    ["Model", `${booked.model}, pool ${booked.pool}, ${booked.claims} claims`],
    ["End", `${booked.reason} ${booked.code}`.trim()],
    ["Prices", `book ${price.book}, version ${price.version}: ${price.why}`],
    ["Cost", exact(booked.amount_nano, booked.currency) + (booked.amount_nano === booked.cost_nano ? "" : `, before corrections ${exact(booked.cost_nano, booked.currency)}`)],
  ];
  for (const each of booked.paid) facts.push(["Paid", `${exact(each.amount_nano, booked.currency)} by the ${each.kind} grant ${each.grant}`]);
  if (booked.owed_nano) facts.push(["Owed", exact(booked.owed_nano, booked.currency)]);
  for (const each of booked.months) {
    facts.push(["Month", `${each.month}: ${exact(each.amount_nano, booked.currency)}, ${each.closed_ms ? "closed" : "not closed yet"}`]);
  }
  return facts;
}
