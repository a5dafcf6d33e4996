// The console page: asks for the platform's state every two seconds, for books and noisy tenants more rarely, and
// builds the page with DOM calls only. What did not change stays in the document, with focus and selection.

/**
 * @typedef {{name: string, node: string, model: string, alive: boolean, lease_ms: number, running: number,
 *   slots: number, kv_usage: number}} Worker
 * @typedef {{tenant: string, request: string, worker: string}} Running
 * @typedef {{tenant: string, name: string, requests: number, input_tokens: number, output_tokens: number,
 *   cost_nano: string, currency: string, owed_nano: string}} Usage
 * @typedef {{now_ms: number, pool: string, workers: Worker[], waiting: Record<string, number>, running: Running[],
 *   running_total: number, ended_unread: number, quarantined: number, usage: Usage[]}} Status
 * @typedef {{check: string, meaning: string, compared: number, differing: number, waiting: number}} CheckSummary
 * @typedef {{check: string, subject: string, name: string, state: string, expected: string, found: string,
 *   difference: string, age_ms: number, detail: string}} Disagreement
 * @typedef {{checks: CheckSummary[], disagreements: Disagreement[], disagreements_total: number}} Books
 * @typedef {{finding: string, name: string, pool: string, opened_ms: number, share_permille: number,
 *   fair_permille: number, others_wait_ms: number, before_wait_ms: number, slots_max: number | null}} Noisy
 * @typedef {{minute_ms: number, tenant_name: string, user: string, key: string, code: string, number: number, why: string,
 *   last_ids: string[], others: boolean}} Refusals
 */

import { explainRequests } from "./request.js";
import { exact, make, table } from "./parts.js";

/** @typedef {import("./parts.js").Cell} Cell */

const REFRESH_MS = 2000;
const LOOK_MS = 15_000;
const main = /** @type {HTMLElement} */ (document.getElementById("main"));
const freshness = /** @type {HTMLElement} */ (document.getElementById("freshness"));
const signOut = /** @type {HTMLButtonElement} */ (document.getElementById("sign-out"));
const finder = /** @type {HTMLFormElement} */ (document.getElementById("find"));
const found = /** @type {HTMLElement} */ (document.getElementById("found"));
const count = new Intl.NumberFormat("en");

/**
 * @param {string} label
 * @param {string} value
 * @param {string} [tone]
 */
function tile(label, value, tone = "") {
  const node = make("div", "tile");
  node.append(make("dt", "", label), make("dd", tone, value));
  return node;
}

/**
 * A number that should be 0; undefined: not known.
 * @param {string} label
 * @param {number | undefined} number
 */
function alarmTile(label, number) {
  return tile(label, number === undefined ? "…" : count.format(number), number ? "bad" : "");
}

/** @param {Status} status */
function tiles(status) {
  const list = make("dl", "tiles");
  const alive = status.workers.filter((worker) => worker.alive).length;
  const waiting = Object.values(status.waiting).reduce((sum, each) => sum + each, 0);
  list.append(
    tile("Workers alive", `${alive} of ${status.workers.length}`, alive ? "good" : "bad"),
    tile("Running", count.format(status.running_total)),
    tile("Waiting", count.format(waiting)),
    tile("Ended, unread", count.format(status.ended_unread)),
    tile("Quarantined", count.format(status.quarantined), status.quarantined ? "bad" : ""),
    alarmTile("Books differ", looked.books?.checks.reduce((sum, each) => sum + each.differing, 0)),
    alarmTile("Noisy tenants", looked.noisy?.length),
  );
  return list;
}

/** @param {CheckSummary} check @returns {Cell} */
function stateOf({ compared, differing, waiting }) {
  if (differing) return { text: `${count.format(differing)} of ${count.format(compared)} differ`, tone: "bad" };
  if (waiting) return { text: `${count.format(waiting)} of ${count.format(compared)} not known yet`, tone: "wait" };
  return { text: "equal", tone: "good" };
}

/** @param {Books | null} books @returns {HTMLElement[]} */
function bookTables(books) {
  const checks = table(
    "Books that must agree",
    ["Check", "Compares", "Comparisons", "State"],
    (books?.checks ?? []).map((each) => [
      { text: each.check },
      { text: each.meaning },
      { text: count.format(each.compared), number: true },
      stateOf(each),
    ]),
    "Not compared yet.",
  );
  if (!books?.disagreements_total) return [checks];
  const shown = books.disagreements.length;
  const some = shown < books.disagreements_total ? `, ${shown} of ${count.format(books.disagreements_total)}` : "";
  return [
    checks,
    table(
      `What does not agree${some}`,
      ["Check", "Tenant", "Of", "Expected", "Found", "Difference", "For", "State", "Detail"],
      books.disagreements.map((each) => [
        { text: each.check },
        { text: each.name },
        { text: each.subject },
        { text: each.expected, number: true },
        { text: each.found, number: true },
        { text: each.difference, number: true },
        { text: each.age_ms ? duration(each.age_ms) : "", number: true },
        { text: each.state, tone: each.state === "differs" ? "bad" : "wait" },
        { text: each.detail },
      ]),
      "",
    ),
  ];
}

/** @param {Noisy[] | null} noisy */
function noisyTable(noisy) {
  return table(
    "Noisy neighbours",
    ["Tenant", "Pool", "Since", "Share", "Fair share", "Others wait", "Before", "Done", "Finding"],
    (noisy ?? []).map((each) => [
      { text: each.name },
      { text: each.pool },
      { text: new Date(each.opened_ms).toLocaleTimeString() },
      { text: `${(each.share_permille / 10).toFixed(0)} %`, number: true },
      { text: `${(each.fair_permille / 10).toFixed(0)} %`, number: true },
      { text: `${(each.others_wait_ms / 1000).toFixed(1)} s`, number: true },
      { text: `${(each.before_wait_ms / 1000).toFixed(1)} s`, number: true },
      each.slots_max === null
        ? { text: "nothing yet", tone: "wait" }
        : { text: `runs at most ${count.format(each.slots_max)} at once`, tone: "bad" },
      { text: each.finding },
    ]),
    noisy ? "Nobody takes far more than their share." : "Not known yet.",
  );
}

/** @param {Refusals[] | null} refused */
function refusedTable(refused) {
  return table(
    "Refused in the last hour",
    ["Minute", "Tenant", "User", "Key", "Code", "Limit", "Times", "Last request"],
    (refused ?? []).map((each) => [
      { text: new Date(each.minute_ms).toLocaleTimeString() },
      { text: each.tenant_name || "(others)" },
      { text: each.others ? "(others)" : each.user },
      { text: each.key },
      { text: each.code },
      { text: each.why },
      { text: count.format(each.number), number: true },
      { text: each.last_ids.at(-1) ?? "" },
    ]),
    refused ? "Nothing was refused." : "Not known yet.",
  );
}

/** "12 s", "5 min", "3 h", "2 days": rounded down. @param {number} ms */
function duration(ms) {
  const seconds = Math.floor(ms / 1000);
  if (seconds < 120) return `${seconds} s`;
  if (seconds < 7200) return `${Math.floor(seconds / 60)} min`;
  return seconds < 172_800 ? `${Math.floor(seconds / 3600)} h` : `${Math.floor(seconds / 86_400)} days`;
}

/** @type {{books: Books | null, noisy: Noisy[] | null, refused: Refusals[] | null}} what is asked for more rarely */
const looked = { books: null, noisy: null, refused: null };

/** Put sections in the place of those before; one that is the same stays. @param {HTMLElement[]} sections */
function replaceSections(sections) {
  sections.forEach((section, at) => {
    const before = main.children[at];
    if (!before) main.append(section);
    else if (!before.isEqualNode(section)) replaceSection(before, section);
  });
  while (main.childElementCount > sections.length) main.lastElementChild?.remove();
}

/** Where the old one was scrolled to and focused, the new one is. @param {Element} before @param {HTMLElement} section */
function replaceSection(before, section) {
  const [old, fresh] = [before.querySelector(".table"), section.querySelector(".table")];
  const focused = old !== null && old === document.activeElement;
  before.replaceWith(section);
  if (old && fresh) fresh.scrollLeft = old.scrollLeft;
  if (focused && fresh instanceof HTMLElement) fresh.focus({ preventScroll: true });
}

/** @param {Status} status */
function show(status) {
  replaceSections([
    tiles(status),
    table(
      "Workers",
      ["Worker", "Node", "Model", "State", "Running", "Slots", "KV use"],
      status.workers.map((worker) => [
        { text: worker.name },
        { text: worker.node },
        { text: worker.model },
        worker.alive ? { text: "alive", tone: "good" } : { text: "lease ended", tone: "bad" },
        { text: count.format(worker.running), number: true },
        { text: count.format(worker.slots), number: true },
        { text: `${(worker.kv_usage * 100).toFixed(1)} %`, number: true },
      ]),
      "No worker is registered. The supervisor's log says why.",
    ),
    table(
      "Waiting by class",
      ["Class", "Requests"],
      Object.entries(status.waiting).map(([name, waiting]) => [{ text: name }, { text: count.format(waiting), number: true }]),
      "",
    ),
    table(
      "Running requests",
      ["Request", "Tenant", "Worker"],
      status.running.map((each) => [{ text: each.request }, { text: each.tenant }, { text: each.worker }]),
      "Nothing runs right now.",
    ),
    table(
      "Usage in the last 24 hours",
      ["Tenant", "Requests", "Input tokens", "Output tokens", "Cost before corrections", "Owed beyond the wallet"],
      status.usage.map((each) => [
        { text: each.name },
        { text: count.format(each.requests), number: true },
        { text: count.format(each.input_tokens), number: true },
        { text: count.format(each.output_tokens), number: true },
        { text: exact(each.cost_nano, each.currency), number: true },
        { text: each.owed_nano === "0" ? "" : exact(each.owed_nano, each.currency), number: true },
      ]),
      "No request has ended yet.",
    ),
    ...bookTables(looked.books),
    noisyTable(looked.noisy),
    refusedTable(looked.refused),
  ]);
  freshness.textContent = `Pool ${status.pool}, ${new Date(status.now_ms).toLocaleTimeString()}`;
}

/** @param {string} message */
function askToSignIn(message) {
  const card = make("section", "sign-in");
  const text = message.charAt(0).toUpperCase() + message.slice(1);
  card.append(make("h2", "", invitation ? "You are invited" : "Sign in"), make("p", "", text));
  const how = make("p", "note", "This prints a link: ");
  how.append(make("code", "", "parley people link NAME"));
  card.append(invitation ? invitationForm(invitation) : how);
  main.replaceChildren(card);
  freshness.textContent = "Not signed in";
  signOut.hidden = finder.hidden = true;
  found.replaceChildren();
}

/** What makes the person that a code invites. @param {string} code */
function invitationForm(code) {
  const [form, label, name] = [make("form"), make("label", "", "Your name "), document.createElement("input")];
  Object.assign(name, { required: true, maxLength: 200, autocomplete: "name" });
  label.append(name);
  form.append(label, make("button", "", "Join"));
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    await signInBy({ by: "invitation", code, name: name.value.trim() });
    if (refused === NO_COOKIE) invitation = "";
    await refresh();
  });
  return form;
}

let invitation = ""; // the code of the invitation that was opened
let refused = ""; // why the link of this page did not sign in
const SIGN_IN = "Open a link that signs you in: whoever manages people can send you one.";
const INVITED = "Say your name as others are to see it. The invitation is good once.";
const NO_COOKIE = "The link was good, but this browser kept no cookie: allow cookies here, then open a new link.";

async function signIn() {
  const given = new URLSearchParams(location.hash.slice(1));
  history.replaceState(null, "", location.pathname);
  invitation = given.get("i") ?? "";
  const code = given.get("p");
  if (code) await signInBy({ by: "link", code });
}

/** @param {Record<string, string>} how */
async function signInBy(how) {
  const reply = await fetch("/api/sign-in", { method: "POST", body: JSON.stringify(how) });
  if (reply.ok) {
    refused = NO_COOKIE; // unless the first answer shows that it did
    return;
  }
  const body = await reply.json().catch(() => ({}));
  refused = body.detail ?? `The console answered ${reply.status}.`;
}

/** @param {string} path */
async function ask(path) {
  const reply = await fetch(path);
  return reply.ok ? await reply.json() : null;
}

async function look() {
  try {
    const paths = ["/api/books", "/api/noisy", "/api/refusals"];
    const [books, noisy, page] = await Promise.all(paths.map(ask));
    [looked.books, looked.noisy, looked.refused] = [books, noisy, page?.found ?? null];
  } catch {
    looked.books = looked.noisy = looked.refused = null; // what was known is no longer: the next look says
  }
  setTimeout(look, LOOK_MS);
}

async function refresh() {
  try {
    const reply = await fetch("/api/status");
    const body = await reply.json();
    if (reply.status === 401) {
      askToSignIn(refused || (invitation ? INVITED : SIGN_IN));
      return;
    }
    if (!reply.ok) throw new Error(body.detail);
    refused = "";
    signOut.hidden = finder.hidden = false;
    show(body);
  } catch (error) {
    freshness.textContent = `Stale: ${error instanceof Error ? error.message : "no answer"}`;
  }
  setTimeout(refresh, REFRESH_MS);
}

signOut.addEventListener("click", async () => {
  try {
    const me = await (await fetch("/api/me")).json();
    const reply = await fetch("/api/sign-out", { method: "POST", headers: { "x-parley-csrf": me.csrf } });
    if (!reply.ok) throw new Error("refused");
    location.reload();
  } catch {
    freshness.textContent = "Not signed out: try again";
  }
});

addEventListener("hashchange", () => {
  if (/^#[ip]=/.test(location.hash)) location.reload(); // a link was opened in this very tab
});
explainRequests(finder, found);
await signIn();
void look();
await refresh();
