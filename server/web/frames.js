// When a page has drawn what it was told to.

/**
 * Do something once what was changed is laid out; a page that nobody sees lays out nothing.
 * @param {() => void} act
 */
export function afterFrame(act) {
  const later = () => setTimeout(act);
  if (document.hidden) later();
  else requestAnimationFrame(later);
}
