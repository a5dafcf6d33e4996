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

export const works = (key: Key) => key.state === "active" || key.state === "rotated";

/** The keys that a key replaced and that still work beside it, the newest of them first. */
export function oldsOf(key: Key, keys: readonly Key[]): Key[] {
  const byId = new Map(keys.map((each) => [each.key, each]));
  const olds: Key[] = [];
  for (let old = byId.get(key.rotated_from ?? ""); old && works(old); old = byId.get(old.rotated_from ?? "")) olds.push(old);
  return olds;
}

export type Which = "both" | "old" | "new";

/** What may be revoked of a rotation: what is chosen, its words, which keys it ends, and the words of the button. */
export function rotationChoices(fresh: Key, olds: readonly Key[]): { which: Which; label: string; ends: string; save: string }[] {
  const old = olds.map((each) => each.prefix).join(", ");
  return [
    { which: "both", label: olds.length > 1 ? "All of them" : "Both", ends: `${old} and ${fresh.prefix}`, save: olds.length > 1 ? "Revoke all" : "Revoke both" },
    { which: "old", label: olds.length > 1 ? "The old keys now" : "The old key now", ends: `${old}; the new one, ${fresh.prefix}, goes on`, save: olds.length > 1 ? "End the old keys now" : "End the old key now" },
    { which: "new", label: "The new key", ends: `${fresh.prefix}; the old ${olds.length > 1 ? "ones go" : "one goes"} on until the overlap ends`, save: "Revoke the new key" },
  ];
}
