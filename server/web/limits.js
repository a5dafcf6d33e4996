// How much of a text is formatted; what is more is plain text.

/** @typedef {import("./formatter.js").BlockLimits} BlockLimits */
/**
 * `all`: elements of the text, what follows is plain. `piece`: characters taken at once. `waits`: it shows text once
 * a frame, and rests in between.
 * @typedef {BlockLimits & {all: number, piece: number, waits: boolean}} Limits
 */

/** @type {Limits} */
export const LIMITS = {
  characters: 32 * 1024,
  tokens: 20_000,
  elements: 5_000,
  all: 20_000,
  ms: 30,
  piece: 4 * 1024,
  asked: false,
  waits: true,
};
/** Those of a passage whose format is asked for. */
export const ASKED = {
  characters: 256 * 1024,
  tokens: 100_000,
  elements: 20_000,
  ms: 150,
  piece: 256 * 1024,
  asked: true,
};
