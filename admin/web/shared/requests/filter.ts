// What the list of requests is filtered by: it is in the URL, so that a view can be sent. Pure.

export const STATES = ["all", "live", "ended", "refused"] as const;
export const OUTCOMES = ["stop", "length", "cancelled", "blocked", "deadline", "budget", "slow_reader", "error"] as const;
const TEXTS = ["tenant", "project", "user", "key", "model", "pool", "code", "since", "until"] as const;

export type ListState = (typeof STATES)[number];
export type Outcome = (typeof OUTCOMES)[number];
type TextName = (typeof TEXTS)[number];
export type RequestsFilter = { state?: ListState; outcome?: Outcome } & { [name in TextName]?: string };

/** The filter of an address. What is no filter is left out. */
export function filterOf(given: Record<string, unknown>): RequestsFilter {
  const filter: RequestsFilter = {};
  for (const name of TEXTS) {
    const text = given[name];
    if (typeof text === "number" || (typeof text === "string" && text.trim())) filter[name] = String(text).trim().slice(0, 200);
  }
  const [state, outcome] = [STATES.find((each) => each === given["state"]), OUTCOMES.find((each) => each === given["outcome"])];
  if (state && state !== "all") filter.state = state;
  if (outcome) filter.outcome = outcome;
  return filter;
}

/** What only ended requests can be asked for: where it is given, those that run are left out. */
export function leavesOutLive(filter: RequestsFilter): ("outcome" | "code" | "until")[] {
  const named = (["outcome", "code", "until"] as const).filter((name) => filter[name]);
  return filter.state === "live" ? [] : [...named];
}

type Whose = { project: string; user: string; user_id: string; key: string; key_name: string };

/** Whether a request that runs is of the project, of the user and with the key that are asked for: the project by its id,
 * the others by id or name. */
export function isWhose(row: Whose, { project, user, key }: RequestsFilter): boolean {
  return (!project || row.project === project) && (!user || [row.user, row.user_id].includes(user)) && (!key || [row.key, row.key_name].includes(key));
}

/** Whether anything but the state is filtered by. */
export function isFiltered({ state: _, ...others }: RequestsFilter): boolean {
  return Object.keys(others).length > 0;
}

/** An id as rows have it: its ends. */
export function shortId(id: string): string {
  return id.length > 20 ? `${id.slice(0, 8)}\u2026${id.slice(-4)}` : id;
}
