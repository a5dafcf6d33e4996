// A text that was sent from its field before it could go out: it goes as it stood then, and what is written behind it
// stays a draft. Pure.

/**
 * What was written behind it; null: it was changed since, and its writer has to send it again.
 * @param {string} text of the field
 * @param {string} asked
 */
export function behind(text, asked) {
  return text.startsWith(asked) ? text.slice(asked.length).trimStart() : null;
}
