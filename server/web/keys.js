// What a key means while somebody types.

/** A finger writes: Return makes a line there, and the button sends. A mouse beside it would hover. */
const TOUCH = matchMedia("(pointer: coarse) and (hover: none)");
const OF_INPUT_METHOD = 229;

/**
 * An input method composes a word, and the key is meant for it. Safari ends a composition before the keydown that
 * ended it, and leaves the code as the only trace.
 * @param {KeyboardEvent} event
 */
export function composes(event) {
  return event.isComposing || event.keyCode === OF_INPUT_METHOD;
}

/**
 * Whether a key sends what is written.
 * @param {KeyboardEvent} event
 */
export function sends(event) {
  return event.key === "Enter" && !event.shiftKey && !composes(event) && !TOUCH.matches;
}

/**
 * What Escape does where nothing that is open takes it.
 * @param {() => void} act
 */
export function onEscape(act) {
  document.addEventListener("keydown", (event) => {
    if (event.key !== "Escape" || event.defaultPrevented || composes(event)) return;
    if (!document.querySelector("dialog[open], :popover-open")) act();
  });
}

/**
 * Say which key does what, and say it again where a mouse comes or goes.
 * @param {HTMLElement} hint
 */
export function explainKeys(hint) {
  const say = () => {
    hint.textContent = TOUCH.matches ? "Return starts a new line" : "Enter sends, Shift+Enter starts a new line";
  };
  TOUCH.addEventListener("change", say);
  say();
}
