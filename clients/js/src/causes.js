// Why a client is not connected now, as a code and a sentence that says what to do. Pure.

/**
 * `code`: "no_token", "unreachable", "lost", "bad_reply", or a code of the protocol that the server named.
 * @typedef {{code: string, message: string}} Cause
 */

const MARKUP = /^\s*</;
const NO_TOKEN = /[\s\0-\x1f<>]/; // no key or ticket has any of these
const TOKEN_CHARACTERS_MAX = 2_048;
const SHOWN_MAX = 200;
const SHOULD = "`token` must give a ticket or a key";

/**
 * What `token` gave, where it can be one.
 * @param {unknown} given
 * @returns {string}
 */
export function checkedToken(given) {
  if (typeof given !== "string" || given === "") throw new Error(`it gave ${given === "" ? "an empty text" : typeof given}`);
  if (MARKUP.test(given)) throw new Error("it gave a web page: is its address right, and is the user signed in there?");
  if (given.length > TOKEN_CHARACTERS_MAX || NO_TOKEN.test(given)) throw new Error("it gave a text that is no token");
  return given;
}

/**
 * `token` threw, hung, or gave none.
 * @param {unknown} error
 * @returns {Cause}
 */
export function noToken(error) {
  const told = (error instanceof Error ? error.message : String(error)).slice(0, SHOWN_MAX);
  const said = error instanceof SyntaxError ? "its reply is no JSON: a web page, perhaps of a sign-in or a proxy" : told;
  return { code: "no_token", message: `no token to connect with: ${said} (${SHOULD})` };
}

/**
 * No WebSocket was opened.
 * @param {string} url
 * @param {string} detail what the runtime says of it; browsers say nothing
 * @returns {Cause}
 */
export function unreachable(url, detail) {
  const hint = detail || "the network, a proxy before it or the server is down, or lets no WebSocket through";
  return { code: "unreachable", message: `no WebSocket could be opened to ${url}: ${hint.slice(0, SHOWN_MAX)}` };
}

/**
 * A connection ended.
 * @param {number} code
 * @param {string} reason
 * @param {import("./frames.js").Error | null} fault what the server said of it before
 * @returns {Cause}
 */
export function lost(code, reason, fault) {
  if (fault) return { code: fault.code, message: fault.message };
  return { code: "lost", message: reason || `the connection was lost (${code})` };
}

/**
 * What came over the socket is no message of the protocol.
 * @param {string} url
 * @returns {Cause}
 */
export function badReply(url) {
  return { code: "bad_reply", message: `what answers at ${url} does not speak parley.v1: is the address right?` };
}
