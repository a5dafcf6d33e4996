// What the page shows the socket: a ticket, or that it is signed out.

import { HttpError, me, SIGNED_OUT, ticket } from "./api.js";
import { SignedOut } from "/web/client/client.js";

export const SUSPENDED = "account_suspended";

/** A fresh ticket. Throws SignedOut where there is none to be had. */
export async function freshToken() {
  try {
    return await ticket();
  } catch (error) {
    const known = error instanceof HttpError ? error : null;
    const ends = known && (known.status === 401 || known.code === SUSPENDED);
    throw ends ? new SignedOut(known.message, known.code === SUSPENDED ? SUSPENDED : undefined) : error;
  }
}

/**
 * Signed out in another tab: the form comes back. A key that is not let in any more leaves what is here. Until it is
 * known who reads, nothing of it is shown; somebody else never sees it.
 */
export async function leaveIfSignedOut() {
  const focused = document.activeElement;
  document.body.classList.add("unknown-reader");
  const known = await me().catch((/** @type {unknown} */ error) => error);
  if (known instanceof HttpError && known.code === SIGNED_OUT) return location.reload();
  if (known instanceof Error && !(known instanceof HttpError && known.status === 401)) return; // nobody could say
  document.body.classList.remove("unknown-reader");
  if (focused instanceof HTMLElement) focused.focus();
}
