// What a change did, from the rows before and after it. Pure.

const UNTOLD = new Set(["id", "reason", "tenant_id", "tenant"]);

type Names = Readonly<Record<string, string>>;

/** `limit 8 → 12, mode enforce → shadow`: each fact that differs. `names`: of things, by their ids. */
export function differences(before: unknown, after: unknown, names: Names = {}): string {
  const [old, now] = [asFacts(before), asFacts(after)];
  const differ = Object.keys({ ...old, ...now }).filter((name) => !UNTOLD.has(name) && !name.endsWith("_ms") && JSON.stringify(old[name] ?? null) !== JSON.stringify(now[name] ?? null));
  return differ.map((name) => `${name.replaceAll("_", " ")} ${word(old[name], names)} → ${word(now[name], names)}`).join(", ");
}

const asFacts = (value: unknown) => (typeof value === "object" && value !== null ? (value as Record<string, unknown>) : {});
const word = (value: unknown, names: Names) => (value === undefined || value === null || value === "" ? "–" : typeof value === "object" ? JSON.stringify(value) : (names[String(value)] ?? shortened(String(value))));

/** A name as it is, an id by its end. */
export const shortened = (text: string) => (/^[0-9a-f]{8}-[0-9a-f-]{27}$/.test(text) ? `…${text.slice(-8)}` : text);

const DONE: Record<string, string> = { override: "overridden", set: "set", withdraw: "withdrawn", stop: "stopped", cancel: "cancelled", find: "sought", show: "shown" };
const REGULAR = new Set("add approve close correct create declare delete drain edit end expire explain export grant kill link list migrate move open refund reject remove reopen revoke rotate test use void".split(" "));

/** An action as what was done: key.create is `key created`; what is no one verb stays as it is, with a colon. */
export function doneOf(action: string): string {
  const [thing = "", verb = ""] = action.replaceAll("_", " ").split(".");
  const done = DONE[verb] ?? (REGULAR.has(verb) ? `${verb}${verb.endsWith("e") ? "d" : "ed"}` : undefined);
  return done ? `${thing} ${done}` : [thing, verb].filter(Boolean).join(": ");
}
