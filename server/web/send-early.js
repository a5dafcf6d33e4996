// Runs before the composer is there, and until the modules are: who sends meanwhile is told so, and early.js has what
// they sent. Less than 1 kB.

{
  const loading = () => document.body.dataset.view === "loading";

  /** @param {Event} event */
  const ask = (event) => {
    event.preventDefault();
    const { value } = /** @type {HTMLTextAreaElement} */ (document.querySelector("#prompt"));
    const [notice, text, action] = document.querySelectorAll("#notice, #notice-text, #notice-action");
    if (value.trim() === "") return;
    document.body.dataset.asked = value;
    text.textContent = "Still loading. Write on; it is sent as soon as it can be.";
    /** @type {HTMLElement} */ (action).hidden = true;
    /** @type {HTMLElement} */ (notice).hidden = false;
  };

  document.addEventListener("submit", (event) => {
    if (loading() && event.target instanceof Element && event.target.id === "composer") ask(event);
  });
  document.addEventListener("keydown", (event) => {
    const plain = event.key === "Enter" && !event.shiftKey && !event.isComposing && event.keyCode !== 229;
    const here = loading() && event.target instanceof Element && event.target.id === "prompt";
    if (plain && here && !matchMedia("(pointer: coarse) and (hover: none)").matches) ask(event);
  });
}
