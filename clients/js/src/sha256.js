// SHA-256 (FIPS 180-4). The browser's own digest is missing on plain http:// origins other than localhost,
// and it is asynchronous; the check of an answer's hash must neither be skipped nor be late.

const ROUND_CONSTANTS = fractions(64, 1 / 3);
const INITIAL_STATE = fractions(8, 1 / 2);

/**
 * The first 32 bits of the fractional parts of the roots of the first primes.
 * @param {number} count
 * @param {number} power
 * @returns {Uint32Array}
 */
function fractions(count, power) {
  const words = new Uint32Array(count);
  for (let candidate = 2, found = 0; found < count; candidate++) {
    if (!isPrime(candidate)) continue;
    const root = candidate ** power;
    words[found++] = (root - Math.floor(root)) * 2 ** 32;
  }
  return words;
}

/** @param {number} candidate */
function isPrime(candidate) {
  for (let divisor = 2; divisor * divisor <= candidate; divisor++) {
    if (candidate % divisor === 0) return false;
  }
  return true;
}

/**
 * Lower-case hex SHA-256 of a string's UTF-8 bytes.
 * @param {string} text
 * @returns {string}
 */
export function sha256(text) {
  const padded = pad(new TextEncoder().encode(text));
  const state = INITIAL_STATE.slice();
  const schedule = new Uint32Array(64);
  for (let at = 0; at < padded.byteLength; at += 64) mix(state, schedule, padded, at);
  return Array.from(state, (word) => word.toString(16).padStart(8, "0")).join("");
}

/**
 * The bytes, a one bit, zeros, and the length in bits, in whole blocks of 64 bytes.
 * @param {Uint8Array} bytes
 * @returns {DataView}
 */
function pad(bytes) {
  const padded = new Uint8Array(Math.ceil((bytes.length + 9) / 64) * 64);
  padded.set(bytes);
  padded[bytes.length] = 0x80;
  const view = new DataView(padded.buffer);
  view.setUint32(padded.length - 8, Math.floor(bytes.length / 2 ** 29));
  view.setUint32(padded.length - 4, bytes.length << 3);
  return view;
}

/**
 * One block into the state (FIPS 180-4, section 6.2.2).
 * @param {Uint32Array} state
 * @param {Uint32Array} schedule
 * @param {DataView} view
 * @param {number} at
 */
function mix(state, schedule, view, at) {
  for (let i = 0; i < 16; i++) schedule[i] = view.getUint32(at + 4 * i);
  for (let i = 16; i < 64; i++) {
    const before15 = /** @type {number} */ (schedule[i - 15]);
    const before2 = /** @type {number} */ (schedule[i - 2]);
    const small0 = rotate(before15, 7) ^ rotate(before15, 18) ^ (before15 >>> 3);
    const small1 = rotate(before2, 17) ^ rotate(before2, 19) ^ (before2 >>> 10);
    schedule[i] = Number(schedule[i - 16]) + small0 + Number(schedule[i - 7]) + small1;
  }
  let [a, b, c, d, e, f, g, h] = /** @type {[number, number, number, number, number, number, number, number]} */ (
    /** @type {unknown} */ (Array.from(state))
  );
  for (let i = 0; i < 64; i++) {
    const big1 = rotate(e, 6) ^ rotate(e, 11) ^ rotate(e, 25);
    const choice = (e & f) ^ (~e & g);
    const first = (h + big1 + choice + Number(ROUND_CONSTANTS[i]) + Number(schedule[i])) | 0;
    const big0 = rotate(a, 2) ^ rotate(a, 13) ^ rotate(a, 22);
    const second = (big0 + ((a & b) ^ (a & c) ^ (b & c))) | 0;
    [h, g, f, e, d, c, b, a] = [g, f, e, (d + first) | 0, c, b, a, (first + second) | 0];
  }
  [a, b, c, d, e, f, g, h].forEach((word, i) => (state[i] = Number(state[i]) + word));
}

/**
 * @param {number} word
 * @param {number} bits
 */
function rotate(word, bits) {
  return (word >>> bits) | (word << (32 - bits));
}
