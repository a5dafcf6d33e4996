// Names of our own for calls.

/** A name that nobody else has: crypto.randomUUID is there over https and on loopback alone. */
export function newId(): string {
  return [...crypto.getRandomValues(new Uint8Array(16))].map((byte) => byte.toString(16).padStart(2, "0")).join("");
}
