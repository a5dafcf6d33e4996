// Light or dark: the system's choice, until somebody chooses otherwise.

import { icon } from "./dom.js";

const dark = matchMedia("(prefers-color-scheme: dark)");

/**
 * Make a button switch between light and dark.
 * @param {HTMLElement} button
 */
export function themeSwitch(button) {
  const show = () => {
    const next = current() === "dark" ? "light" : "dark";
    button.replaceChildren(icon(next), next === "dark" ? "Dark" : "Light");
    button.setAttribute("aria-label", `Use the ${next} theme`);
  };
  button.addEventListener("click", () => {
    const next = current() === "dark" ? "light" : "dark";
    document.documentElement.dataset.theme = next;
    localStorage.setItem("theme", next);
    show();
  });
  dark.addEventListener("change", show);
  show();
}

function current() {
  return document.documentElement.dataset.theme ?? (dark.matches ? "dark" : "light");
}
