// What keeps hostile text from stopping the page: how deep blocks stand in one another, and how long reading takes.

/** @typedef {import("markdown-it").StateBlock} StateBlock */

const DEPTH_MAX = 24; // of tokens: a list in a list is two
const STEPS = 32; // between two looks at the clock
const STEPS_MIN = 1500; // a block of so few is not slow: the machine is

export class TooSlow extends Error {}

/**
 * @param {import("markdown-it").MarkdownIt} md
 * @param {{until: number, steps: number}} watch until: by performance.now()
 */
export function limits(md, watch) {
  const look = () => {
    const due = ++watch.steps % STEPS === 0 && watch.steps > STEPS_MIN;
    if (due && performance.now() > watch.until) throw new TooSlow();
    return false;
  };
  md.inline.ruler.before("text", "clock", look);
  md.block.ruler.before("table", "clock", look, { alt: ["paragraph", "reference", "blockquote", "list"] });
  const paragraph = md.block.ruler.getRules("").at(-1);
  // markdown-it itself would drop what is too deep.
  md.block.ruler.before("table", "depth", (state, from, to, silent) => {
    return state.level >= DEPTH_MAX && paragraph !== undefined && paragraph(state, from, to, silent);
  });
}
