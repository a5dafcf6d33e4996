// Text that arrives in pieces, with the ends of its lines alike wherever it was cut. Pure.

export class Arriving {
  /** All of it. */
  text = "";
  /** What was not taken yet, but for the first half of a line's end. */
  #arrived = "";
  #half = "";

  /** @param {string} text */
  add(text) {
    this.text += text;
    const come = this.#half + text;
    this.#half = come.endsWith("\r") ? "\r" : "";
    const lines = this.#half === "" ? come : come.slice(0, -1);
    this.#arrived += lines.replace(/\r\n?/g, "\n").replaceAll("\0", "\ufffd");
  }

  /** Nothing follows. */
  end() {
    if (this.#half !== "") this.#arrived += "\n";
    this.#half = "";
  }

  hasMore() {
    return this.#arrived !== "";
  }

  /** @param {number} most characters */
  take(most) {
    const piece = this.#arrived.slice(0, most);
    this.#arrived = this.#arrived.slice(piece.length);
    return piece;
  }
}
