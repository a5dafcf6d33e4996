// Why connections end, in words. Pure.

import type { StateName } from "../../../shared/components/state";

const WORDS: Record<string, readonly [StateName, string]> = {
  bye: ["cancelled", "said goodbye"],
  client_closed: ["cancelled", "closed by the client"],
  client_left: ["cancelled", "its page was left"],
  lost: ["warn", "lost without a word"],
  drain: ["cancelled", "the gateway stopped"],
  max_age: ["cancelled", "was open as long as one may"],
  rebalance: ["cancelled", "sent to another gateway"],
  superseded: ["cancelled", "opened again elsewhere"],
  slow: ["warn", "took nothing of what waited"],
  state_lost: ["bad", "its session was lost"],
  no_pong: ["warn", "did not answer pings"],
  rate_limited: ["warn", "came too often"],
  auth_expired: ["cancelled", "its ticket ended"],
  internal: ["bad", "our fault"],
  bad_message: ["warn", "sent what is no message"],
  auth_invalid: ["warn", "its key is not good"],
  hello_timeout: ["warn", "said no hello"],
  forbidden: ["blocked", "may not"],
  connection_limit: ["blocked", "too many of this key or user"],
  version: ["warn", "speaks another version"],
  suspended: ["blocked", "refused: closed"],
  too_big: ["warn", "sent too much at once"],
};

/** A cause as its shape and words; one that is new as it is. */
export function endOf(cause: string): { state: StateName; words: string } {
  const [state, words] = WORDS[cause] ?? ["unknown", cause.replaceAll("_", " ") || "nobody knows why"];
  return { state, words };
}
