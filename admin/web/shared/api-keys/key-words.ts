// Words of keys, the same in the console and the portal. Pure.

import type { Schemas } from "../api";
import { count, lasting } from "../format";

export type Key = Schemas["ListedKey"];
export type ShownKey = Schemas["ShownKey"];
export type KeyScope = "chat" | "requests:cancel" | "requests:read" | "usage:read" | "usage:read:tenant";

/** What each scope lets a key do. */
export const SCOPES: readonly (readonly [KeyScope, string])[] = [
  ["chat", "ask models"],
  ["requests:read", "read requests of its project"],
  ["requests:cancel", "cancel requests of its project"],
  ["usage:read", "read its project's usage and cost"],
  ["usage:read:tenant", "read all projects' usage and cost"],
];

/** Origins as they are typed: one a line, or with blanks or commas between. */
export const originsOf = (text: string) => text.split(/[\s,]+/).filter(Boolean);

/** Which pages may use a key, in full. */
export const originWords = (origins: readonly string[]) => (origins.length ? `pages of ${origins.join(", ")}` : "any page and program");

/** Which pages may use a key, for a table; empty where any may. */
export function shortOrigins(origins: readonly string[]): string {
  const [first] = origins;
  if (first === undefined) return "";
  const site = first.replace(/^https?:\/\//, "");
  return origins.length === 1 ? `in pages of ${site}` : `in pages of ${site} and ${count(origins.length - 1)} more`;
}

/** A key as people know it. */
export const keyName = (key: { name: string; prefix: string }) => key.name || key.prefix;

/** What has to be typed to confirm: the name where a keyboard has it, else the prefix. */
export const typedName = (key: { name: string; prefix: string }) => (/^[\x21-\x7e][\x20-\x7e]*$/.test(key.name) ? key.name : key.prefix);

/** Whether a key may be ended, from what it served of late: `The old key served 1,204 requests in the last hour.` */
export function servedWords(key: ShownKey, who: string, now: number = Date.now()): string {
  const time = key.since ? (now - new Date(key.since).getTime()) / 1000 : 3600;
  const lately = time > 3500 ? "the last hour" : `the last ${lasting(time)}`;
  if (key.requests) return `${who} served ${count(key.requests)} ${key.requests === 1 ? "request" : "requests"} in ${lately}`;
  return key.last_used ? `${who} served nothing in ${lately}` : `${who} has served nothing in 100 days`;
}
