// Whether long lines of code wrap: one choice for all code, remembered by this browser.

const KEY = "wrap-code";
let wraps = false;

/** Whether they wrap. */
export function codeWraps() {
  return wraps;
}

/** As it was chosen last. */
export function restoreCodeWrap() {
  show(localStorage.getItem(KEY) === "true");
}

/** Wrap them, or no longer. */
export function toggleCodeWrap() {
  show(!wraps);
  localStorage.setItem(KEY, String(wraps));
}

/** @param {boolean} chosen */
function show(chosen) {
  wraps = chosen;
  document.documentElement.classList.toggle("wraps-code", wraps);
  for (const button of document.querySelectorAll(".wrap-code")) button.setAttribute("aria-pressed", String(wraps));
}
