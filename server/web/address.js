// Which chat the address names.

/** @returns {string | null} null: one that has no message yet */
export function chatInAddress() {
  return /^#\/([0-9a-f-]{36})$/.exec(location.hash)?.[1] ?? null;
}

/**
 * Tell of each chat that the reader goes to. A sign-in link opened in this very tab loads the page again.
 * @param {(id: string | null) => void} onChat
 */
export function watchAddress(onChat) {
  addEventListener("hashchange", () => {
    if (location.hash.startsWith("#c=")) location.reload();
    else onChat(chatInAddress());
  });
}

/**
 * The chat without a message has become this one.
 * @param {string} id
 */
export function nameChat(id) {
  history.pushState(null, "", `#/${id}`);
}

/** The open chat is none any more. */
export function unnameChat() {
  history.replaceState(null, "", "#/");
}
