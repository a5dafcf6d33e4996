// Calls of the API, typed by /openapi.json (api-types.d.ts, which scripts/api_types.py makes).

import createClient, { type Middleware } from "openapi-fetch";
import type { components, paths } from "./api-types";
import { newId } from "./ids";

export type Schemas = components["schemas"];

/** What changed since a version that was edited. */
export type Change = { author?: string; at?: string; action?: string; reason?: string; before?: unknown; after?: unknown };

/** A refusal of the API (problem+json), or no answer at all (status 0). */
export class Problem extends Error {
  constructor(
    readonly status: number,
    readonly detail: string,
    readonly field?: string,
    readonly changes: Change[] = [],
    readonly see?: Record<string, unknown>,
    /** The code behind urn:parley:problem: */
    readonly code: string = "",
  ) {
    super(detail);
  }
}

let csrf = "";

/** What writes show beside the cookie: a page of another site cannot read it. */
export function rememberToken(token: string | null): void {
  csrf = token ?? "";
}

let showSecondFactor: ((setUp?: boolean) => Promise<boolean>) | null = null;

/** What asks for the code that a write waits for; false where the person gave up. */
export function askSecondFactorWith(ask: typeof showSecondFactor): void {
  showSecondFactor = ask;
}

/** Let somebody who has no second factor set one up; false where they gave up. */
export async function setUpSecondFactor(): Promise<boolean> {
  return (await showSecondFactor?.(true)) ?? false;
}

const writes = new Map<string, Request>(); // as they were sent, to send them once more

/** What only reads though it is posted, for what belongs in no address: it is kept under no key. */
const READS = new Set(["/api/safety/try"]);

const guard: Middleware = {
  onRequest({ request, id, schemaPath }) {
    if (request.method === "GET") return request;
    request.headers.set("x-parley-csrf", csrf);
    if (!READS.has(schemaPath) && !request.headers.has("idempotency-key")) request.headers.set("idempotency-key", newId());
    writes.set(id, request.clone());
    return request;
  },
  async onResponse({ response, id }) {
    const again = writes.get(id);
    writes.delete(id);
    if (response.ok) return undefined;
    const problem = await problemOf(response);
    if (problem.code !== "second_factor" || !again || !(await showSecondFactor?.())) throw problem;
    again.headers.set("x-parley-csrf", csrf);
    const second = await fetch(again);
    if (!second.ok) throw await problemOf(second);
    return second;
  },
  onError({ id }) {
    writes.delete(id);
  },
};

export const api = createClient<paths>({ baseUrl: location.origin });
api.use(guard);

/** The answer of a call: it throws a Problem where there is none. */
export async function answered<T>(call: Promise<{ data?: T }>): Promise<T> {
  try {
    return (await call).data as T;
  } catch (error) {
    if (error instanceof Problem) throw error;
    throw new Problem(0, "No answer: Parley cannot be reached now.");
  }
}

const PAGES_MAX = 50;

/** All items of a list, page by page: a list of ten thousand is not cut off behind its first page. */
export async function everyItem<Item>(page: (query: { limit: number; after: string }) => Promise<{ items: Item[]; next?: string | null }>): Promise<Item[]> {
  const items: Item[] = [];
  let after = "";
  for (let read = 0; read < PAGES_MAX; read += 1) {
    const found = await page({ limit: 1000, after });
    items.push(...found.items);
    if (!found.next) return items;
    after = found.next;
  }
  throw new Problem(0, `There are more than ${items.length} of them: ask for them by command.`);
}

/** The answer of a call and the ETag of what it showed, for an edit that begins with it. */
export async function answeredWithTag<T>(call: Promise<{ data?: T; response: Response }>): Promise<{ data: T; tag: string | undefined }> {
  const data = await answered(call);
  return { data, tag: (await call).response.headers.get("etag") ?? undefined };
}

/** What moves money: done, or (`waits`) until a second person approves. `needs`: of a dry run, whether one is "needed", or
 * needed and "missing". */
export type Moved<T> = { done?: T; waits?: Schemas["WaitingMove"]; needs: string };

/** The answer of a call that moves money. */
export async function answeredMove<T>(call: Promise<{ data?: T | Schemas["WaitingMove"]; response: Response }>): Promise<Moved<T>> {
  const data = await answered(call);
  const { response } = await call;
  const needs = response.headers.get("x-parley-second-person") ?? "";
  return response.status === 202 ? { waits: data as Schemas["WaitingMove"], needs } : { done: data as T, needs };
}

/** A call of a path that /openapi.json does not list: signing in and out, who one is. */
export async function post(path: string, body: unknown): Promise<unknown> {
  const headers = { "content-type": "application/json", "x-parley-csrf": csrf };
  return read(fetch(path, { method: "POST", headers, body: JSON.stringify(body) }));
}

export async function get(path: string): Promise<unknown> {
  return read(fetch(path));
}

async function read(asked: Promise<Response>): Promise<unknown> {
  const response = await asked.catch(() => {
    throw new Problem(0, "No answer: Parley cannot be reached now.");
  });
  if (!response.ok) throw await problemOf(response);
  return response.json();
}

async function problemOf(response: Response): Promise<Problem> {
  const told = (await response.clone().json().catch(() => ({}))) as Record<string, unknown>;
  const detail = typeof told["detail"] === "string" ? told["detail"] : `Parley could not answer (${response.status}).`;
  const field = typeof told["field"] === "string" ? told["field"] : undefined;
  const changes = Array.isArray(told["changes"]) ? (told["changes"] as Change[]) : [];
  const see = told["see"] as Record<string, unknown> | undefined;
  const code = typeof told["type"] === "string" ? told["type"].replace(/^urn:parley:problem:/, "") : "";
  return new Problem(response.status, detail, field, changes, see, code);
}
