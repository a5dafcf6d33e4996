// The console page: asks /api/status every two seconds and builds the page with DOM calls only.

/**
 * @typedef {{name: string, node: string, model: string, alive: boolean, lease_ms: number, running: number,
 *   slots: number, kv_usage: number}} Worker
 * @typedef {{tenant: string, request: string, worker: string}} Running
 * @typedef {{tenant: string, name: string, requests: number, input_tokens: number, output_tokens: number,
 *   cost_nano: string, currency: string}} Usage
 * @typedef {{now_ms: number, pool: string, workers: Worker[], waiting: Record<string, number>, running: Running[],
 *   running_total: number, ended_unread: number, quarantined: number, usage: Usage[]}} Status
 * @typedef {{text: string, number?: boolean, tone?: string}} Cell
 */

const REFRESH_MS = 2000;
const main = /** @type {HTMLElement} */ (document.getElementById("main"));
const freshness = /** @type {HTMLElement} */ (document.getElementById("freshness"));
const count = new Intl.NumberFormat("en");

/**
 * @param {string} tag
 * @param {string} [className]
 * @param {string} [text]
 */
function make(tag, className = "", text = "") {
  const node = document.createElement(tag);
  if (className) node.className = className;
  if (text) node.textContent = text;
  return node;
}

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
 * @param {string} title
 * @param {string[]} heads
 * @param {Cell[][]} rows
 * @param {string} empty
 */
function table(title, heads, rows, empty) {
  const section = make("section");
  section.append(make("h2", "", title));
  const box = make("div", "table");
  box.tabIndex = 0;
  box.setAttribute("role", "region");
  box.setAttribute("aria-label", title);
  if (rows.length === 0) {
    box.append(make("p", "empty", empty));
  } else {
    const element = make("table");
    const head = make("tr");
    heads.forEach((text, at) => {
      const cell = make("th", rows[0]?.[at]?.number ? "number" : "", text);
      cell.setAttribute("scope", "col");
      head.append(cell);
    });
    const headGroup = make("thead");
    headGroup.append(head);
    const body = make("tbody");
    for (const row of rows) {
      const line = make("tr");
      for (const cell of row) line.append(make("td", `${cell.number ? "number" : ""} ${cell.tone ?? ""}`.trim(), cell.text));
      body.append(line);
    }
    element.append(headGroup, body);
    box.append(element);
  }
  section.append(box);
  return section;
}

/** Money from nano-units, as text: never a float. @param {string} nano @param {string} currency */
function money(nano, currency) {
  const padded = nano.padStart(10, "0");
  return `${padded.slice(0, -9)}.${padded.slice(-9, -3)} ${currency.toUpperCase()}`;
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
    tile("Quarantined usage", count.format(status.quarantined), status.quarantined ? "bad" : ""),
  );
  return list;
}

/** @param {Status} status */
function show(status) {
  const box = document.scrollingElement?.scrollTop ?? 0;
  main.replaceChildren(
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
      ["Tenant", "Requests", "Input tokens", "Output tokens", "Cost"],
      status.usage.map((each) => [
        { text: each.name },
        { text: count.format(each.requests), number: true },
        { text: count.format(each.input_tokens), number: true },
        { text: count.format(each.output_tokens), number: true },
        { text: money(each.cost_nano, each.currency), number: true },
      ]),
      "No request has ended yet.",
    ),
  );
  document.scrollingElement?.scrollTo(0, box);
  freshness.textContent = `Pool ${status.pool}, ${new Date(status.now_ms).toLocaleTimeString()}`;
}

/** @param {string} message */
function askToSignIn(message) {
  const card = make("section", "sign-in");
  card.append(make("h2", "", "Sign in"), make("p", "", message));
  main.replaceChildren(card);
  freshness.textContent = "Not signed in";
}

async function signIn() {
  const code = new URLSearchParams(location.hash.slice(1)).get("o");
  if (!code) return;
  history.replaceState(null, "", location.pathname);
  await fetch("/api/login", { method: "POST", headers: { "x-parley-code": code } });
}

async function refresh() {
  try {
    const reply = await fetch("/api/status");
    const body = await reply.json();
    if (reply.status === 401) {
      askToSignIn(body.error.message);
      return;
    }
    if (!reply.ok) throw new Error(body.error.message);
    show(body);
  } catch (error) {
    freshness.textContent = `Stale: ${error instanceof Error ? error.message : "no answer"}`;
  }
  setTimeout(refresh, REFRESH_MS);
}

await signIn();
await refresh();
