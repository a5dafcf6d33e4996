// A footnote's mark leads to the note, the note's number back to its first mark.

/**
 * @param {HTMLElement} root of the text
 * @param {EventTarget | null} target what was pressed
 */
export function followNote(root, target) {
  const pressed = target instanceof Element ? target.closest(".note-mark, .note-number") : null;
  if (!(pressed instanceof HTMLElement)) return;
  const kind = pressed.classList.contains("note-mark") ? ".note-number" : ".note-mark";
  const others = [...root.querySelectorAll(kind)];
  const other = others.find((each) => each instanceof HTMLElement && each.dataset.note === pressed.dataset.note);
  if (!(other instanceof HTMLElement)) return;
  other.scrollIntoView({ block: "nearest" });
  other.focus({ preventScroll: true });
}
