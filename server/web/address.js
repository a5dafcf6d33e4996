// The page's address.

/** The chat that it names. */
export function chatInAddress() {
  return /^#\/([0-9a-f-]{36})$/.exec(location.hash)?.[1] ?? null;
}
