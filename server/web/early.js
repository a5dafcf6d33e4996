// What was sent while the page still loaded (send-early.js).

/**
 * It leaves the field, and what was written after it stays there. "": nothing was, or it was changed since, and its
 * writer has to send it again.
 * @param {HTMLTextAreaElement} prompt
 */
export function takeEarly(prompt) {
  const { asked } = document.body.dataset;
  delete document.body.dataset.asked;
  if (asked === undefined || !prompt.value.startsWith(asked)) return "";
  prompt.value = prompt.value.slice(asked.length).trimStart();
  return asked;
}
