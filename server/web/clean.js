// Characters that no message can hold. Pure.

// Half of a pair is no character.
const LONE_SURROGATE = /[\ud800-\udbff](?![\udc00-\udfff])|(?<![\ud800-\udbff])[\udc00-\udfff]/g;

/**
 * A text as it can be sent, and how many characters of it could not be.
 * @param {string} text
 */
export function cleaned(text) {
  let count = 0;
  const without = text.replace(/\0/g, () => (count++, ""));
  return { text: without.replace(LONE_SURROGATE, () => (count++, "\ufffd")), count };
}

/** @param {number} count */
export function cleanedText(count) {
  const what = count === 1 ? "A character that no message can hold was" : `${count} characters that no message can hold were`;
  return `${what} left out or replaced.`;
}
