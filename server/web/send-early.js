// Runs before the composer is there, and until the modules are: who sends meanwhile is told so, and early.js has what
// they sent. Where the modules do not come, that is said. Less than 1 kB.

{
  let words = "Still loading. Write on; it is sent as soon as it can be.";
  const loading = () => document.body.dataset.view === "loading";

  /** @param {boolean} broken */
  const say = (broken) => {
    const boxes = document.querySelectorAll("#notice, #notice-text, #notice-action");
    const [notice, text, action] = /** @type {NodeListOf<HTMLElement>} */ (boxes);
    text.textContent = words;
    action.textContent = "Reload";
    action.hidden = !broken;
    action.onclick = broken ? () => location.reload() : null;
    notice.hidden = false;
  };

  /** @param {Event} event */
  const ask = (event) => {
    event.preventDefault();
    const { value } = /** @type {HTMLTextAreaElement} */ (document.querySelector("#prompt"));
    if (value.trim() === "") return;
    document.body.dataset.asked = value;
    say(!words.startsWith("Still"));
  };

  /** @param {string} id @param {Event} event */
  const at = (id, event) => loading() && event.target instanceof Element && event.target.id === id;

  document.addEventListener("submit", (event) => at("composer", event) && ask(event));
  document.addEventListener("keydown", (event) => {
    const plain = event.key === "Enter" && !event.shiftKey && !event.isComposing && event.keyCode !== 229;
    if (plain && at("prompt", event) && !matchMedia("(pointer: coarse) and (hover: none)").matches) ask(event);
  });
  document.addEventListener(
    "error",
    (event) => {
      if (!(event.target instanceof HTMLScriptElement)) return;
      words = "This page could not be loaded. Copy what you wrote, then try again.";
      if (document.readyState === "loading") addEventListener("DOMContentLoaded", () => say(true));
      else say(true);
    },
    true,
  );
}
