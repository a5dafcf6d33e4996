// Ids that clients make: UUIDv7 (RFC 9562, section 5.7).

/**
 * A new UUIDv7 in canonical lower-case text.
 * @param {number} nowMs Unix milliseconds of the server's clock: `welcome.now`, carried on by the local clock
 * @returns {string}
 */
export function uuid7(nowMs) {
  const bytes = crypto.getRandomValues(new Uint8Array(16));
  const view = new DataView(bytes.buffer);
  view.setUint16(0, Math.floor(nowMs / 2 ** 32));
  view.setUint32(2, nowMs % 2 ** 32);
  view.setUint8(6, 0x70 | (view.getUint8(6) & 0x0f));
  view.setUint8(8, 0x80 | (view.getUint8(8) & 0x3f));
  const hex = Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("");
  return [hex.slice(0, 8), hex.slice(8, 12), hex.slice(12, 16), hex.slice(16, 20), hex.slice(20)].join("-");
}
