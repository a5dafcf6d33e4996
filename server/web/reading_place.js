// The place that a reader has in view: what grows or shrinks above it moves nothing on the screen. Not every browser
// has scroll anchoring, so the page does it in all of them (`overflow-anchor: none` in style.css).

const HOLDS_BLOCKS = "article, div, ul, ol, li, blockquote, table, tbody, tr";

export class ReadingPlace {
  /**
   * @param {Element} scroller
   * @param {Element} content
   */
  constructor(scroller, content) {
    this.#scroller = scroller;
    this.#content = content;
  }

  #scroller;
  #content;
  /** What is at the top of the view, innermost first, and how far from the content's beginning each was, in px.
   * @type {[Element, number][]} */
  #seen = [];

  /** The reader goes along with the end: there is no place to keep. */
  leave() {
    this.#seen = [];
  }

  /** Something was laid out anew, or scrolled: scroll as far as the place has moved, and note where it is now. */
  hold() {
    const moved = this.#moved();
    if (Math.abs(moved) >= 1) this.#scroller.scrollTop += moved;
    this.#note();
  }

  /** How far the innermost element that is there still has moved in the content. */
  #moved() {
    const [element, before] = this.#seen.find(([{ isConnected }]) => isConnected) ?? [];
    return element && before !== undefined ? this.#position(element) - before : 0;
  }

  #note() {
    this.#seen = [];
    const { top } = this.#scroller.getBoundingClientRect();
    for (let within = this.#content; within; ) {
      const found = [...within.children].find((child) => child.getBoundingClientRect().bottom > top);
      if (!found) return;
      this.#seen.unshift([found, this.#position(found)]);
      const cut = found.getBoundingClientRect().top < top;
      if (!cut || !found.matches(HOLDS_BLOCKS)) return;
      within = found;
    }
  }

  /** @param {Element} element */
  #position(element) {
    const { top } = this.#scroller.getBoundingClientRect();
    return element.getBoundingClientRect().top - top + this.#scroller.scrollTop;
  }
}
