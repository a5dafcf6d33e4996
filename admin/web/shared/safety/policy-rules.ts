// The rules of a policy's document as a form holds them. Pure.

import type { Schemas } from "../api";

export type PolicyDocument = Schemas["PolicyDocument"];
export type Action = "block" | "redact" | "flag" | null;
export type Kind = "detectors" | "patterns" | "words";
/** `text`: a pattern, or words, one a line. `rest`: what the form does not show. */
export type Rule = { id: number; kind: Kind; name: string; action: Action; prompt: Action; text: string; rest: Record<string, unknown> };

export const DETECTORS = ["private_key", "api_key", "card", "iban", "email", "phone"];
export const KINDS: readonly [Kind, string][] = [["detectors", "detector"], ["patterns", "pattern"], ["words", "words"]];

type Entry = { name: string; action?: Action; prompt?: Action; pattern?: string; words?: string[]; scope?: string };

/** The rules of a document, in its order. */
export function rulesOf(document: Record<string, unknown>): Rule[] {
  return KINDS.flatMap(([kind]) => ((document[kind] ?? []) as Entry[]).map((entry) => ({ kind, entry }))).map(({ kind, entry }, id) => {
    const { name, action = null, prompt = null, pattern = "", words = [], scope: _, ...rest } = entry;
    return { id, kind, name, action, prompt, text: kind === "words" ? words.join("\n") : pattern, rest };
  });
}

/** The document of rules. What is empty is left out, as the API does. */
export function documentOf(rules: readonly Rule[]): PolicyDocument {
  const of = (kind: Kind) => rules.filter((rule) => rule.kind === kind).map(entryOf);
  return { detectors: of("detectors"), patterns: of("patterns"), words: of("words") } as unknown as PolicyDocument;
}

function entryOf({ kind, name, action, prompt, text, rest }: Rule): Entry {
  const holds = kind === "patterns" ? { pattern: text } : kind === "words" ? { words: wordsOf(text) } : {};
  return { ...rest, name: name.trim(), ...holds, ...(action ? { action } : {}), ...(prompt ? { prompt } : {}) };
}

const wordsOf = (text: string) => text.split("\n").map((line) => line.trim()).filter(Boolean);

/** What is missing of a rule; empty: nothing. */
export function lackOf(rule: Rule): string {
  if (!rule.name.trim()) return "Name it.";
  if (rule.kind === "patterns" && !rule.text) return "Say which pattern.";
  if (rule.kind === "words" && !wordsOf(rule.text).length) return "At least one word or phrase.";
  return rule.action || rule.prompt ? "" : "It does nothing yet: choose what it does.";
}
