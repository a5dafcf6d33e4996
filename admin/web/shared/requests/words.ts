// What a request's state and end are called, and their shapes. Pure.

import type { StateName } from "../components/state";

export type Word = { shape: StateName; word: string };

const LIVE: Record<string, Word> = {
  queued: { shape: "unknown", word: "waiting" },
  running: { shape: "starting", word: "decoding" },
  parked: { shape: "warn", word: "parked" },
  moving: { shape: "moving", word: "moving" },
  moved: { shape: "moving", word: "moved" },
};
const ENDS: Record<string, Word & { said: string }> = {
  stop: { shape: "well", word: "ended", said: "Ended normally" },
  length: { shape: "well", word: "at its length", said: "Ended at its length" },
  cancelled: { shape: "cancelled", word: "cancelled", said: "Cancelled" },
  blocked: { shape: "blocked", word: "blocked", said: "Blocked by its safety policy" },
  deadline: { shape: "warn", word: "deadline", said: "Ended by its deadline" },
  budget: { shape: "warn", word: "budget", said: "Ended by its budget" },
  slow_reader: { shape: "warn", word: "slow reader", said: "Ended, as it was read too slowly" },
  error: { shape: "bad", word: "error", said: "Failed" },
};

/** The word of a request that has not ended. */
export function liveWord(status: string, firstTokenMs: number): Word {
  if (status === "running" && !firstTokenMs) return { shape: "starting", word: "prefill" };
  return LIVE[status] ?? { shape: "unknown", word: status };
}

/** The word of how it ended. `code`: of an error. */
export function endWord(reason: string, code: string = ""): Word & { said: string } {
  const end = ENDS[reason] ?? { shape: "unknown", word: reason, said: `Ended (${reason})` };
  return code ? { ...end, word: code } : end;
}

const WHOSE = ["tenant", "project", "key", "user", "model"];

/** Why a send was refused: the limit and whose it is, or what a safety policy found. */
export function refusalWhy(why: string): string {
  const [scope = "", ...rest] = why.split(" ");
  const words = rest.join(" ").replaceAll("_", " ");
  if (!WHOSE.includes(scope) || !words) return why.replaceAll("_", " ");
  return words === "wallet" ? "the prepaid credit" : `${["day", "week", "month", "lifetime"].includes(words) ? `budget (${words})` : words} of the ${scope}`;
}

export const METERS: Record<string, string> = {
  input: "Input",
  cached_input: "Input from cache",
  output: "Output",
  reasoning: "Reasoning",
  request: "The request",
};
