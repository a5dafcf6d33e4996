// What a tab shows once somebody else has signed in in its browser: that, and nothing of whose it was.

import { byId, closeDialogs } from "./dom.js";

/** The page has ended. @returns {boolean} */
export function hasEnded() {
  return document.body.dataset.view === "left";
}

/**
 * End it, for good: nothing more is sent, read or shown, and the way on is another page. Drafts stay their writer's.
 * @param {import("/web/client/client.js").Client} client
 * @param {import("./drafts.js").Drafts} drafts
 * @param {import("./sidebar.js").Sidebar} sidebar
 */
export function endPage(client, drafts, sidebar) {
  client.close();
  drafts.leave();
  sidebar.clear();
  closeDialogs();
  document.body.dataset.view = "left";
  document.title = "Parley";
  history.replaceState(null, "", "/");
  for (const id of ["log", "conversations", "title"]) byId(id).replaceChildren();
  /** @type {HTMLTextAreaElement} */ (byId("prompt")).value = "";
  byId("left").hidden = false;
  const on = byId("left-on");
  on.addEventListener("click", () => location.reload());
  on.focus();
}
