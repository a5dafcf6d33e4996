// What a change did, from the rows before and after it. Pure.

const UNTOLD = new Set(["id", "reason", "tenant_id", "tenant"]);

/** `limit 8 → 12, mode enforce → shadow`: each fact that differs. */
export function differences(before: unknown, after: unknown): string {
  const [old, now] = [asFacts(before), asFacts(after)];
  const names = Object.keys({ ...old, ...now }).filter((name) => !UNTOLD.has(name) && !name.endsWith("_ms") && JSON.stringify(old[name] ?? null) !== JSON.stringify(now[name] ?? null));
  return names.map((name) => `${name.replaceAll("_", " ")} ${word(old[name])} → ${word(now[name])}`).join(", ");
}

const asFacts = (value: unknown) => (typeof value === "object" && value !== null ? (value as Record<string, unknown>) : {});
const word = (value: unknown) => (value === undefined || value === null || value === "" ? "–" : typeof value === "object" ? JSON.stringify(value) : shortened(String(value)));

/** A name as it is, an id by its end. */
export const shortened = (text: string) => (/^[0-9a-f]{8}-[0-9a-f-]{27}$/.test(text) ? `…${text.slice(-8)}` : text);
