// Signing in: by the one-time code in the address, by the cookie of an earlier time, or by a key that is pasted.

import * as api from "./api.js";
import { byId } from "./dom.js";
import { seconds, sentence } from "./words.js";

const LINK_AS_KEY = "This is a sign-in link, not a key. Paste it into the address bar instead.";

/**
 * Resolves once the browser is signed in. The code is dropped from the address before anything else happens.
 * @returns {Promise<api.Me>} as whom
 */
export async function signIn() {
  const code = /^#c=([\w.-]+)$/.exec(location.hash)?.[1];
  if (code) history.replaceState(null, "", location.pathname);
  const before = code ? await api.me().catch((/** @type {unknown} */ error) => error) : null;
  const taken = code && (!before || isNobody(before) || (await wantsAnother(before)));
  const entered = taken ? await attempt(() => api.login({ code })) : "";
  if (typeof entered !== "string") return entered;
  const known = await api.me().catch((/** @type {Error} */ error) => error);
  if (!(known instanceof Error)) return known;
  const why = known instanceof api.HttpError && known.code === api.SIGNED_OUT ? "" : sentence(known.message);
  return byForm(entered || why);
}

/** @param {unknown} found what `me` answered; a server that could not say may know somebody */
function isNobody(found) {
  return found instanceof api.HttpError && found.status === 401;
}

/**
 * Whether the reader wants to be whom the link is for. Who sent it may want them to write in an account that is
 * not theirs; for whom it is only the server knows, once it is used.
 * @param {unknown} known the reader, or why that is not known
 */
function wantsAnother(known) {
  const dialog = /** @type {HTMLDialogElement} */ (byId("another"));
  const me = known instanceof Error ? null : /** @type {api.Me} */ (known);
  const name = me && (me.user ? `${me.user} of ${me.tenant}` : `a service key of ${me.tenant}`);
  byId("another-text").textContent =
    `You ${name ? `are signed in as ${name}` : "may be signed in already"}. This link signs this browser in as somebody else, or as you again: ` +
    "whom it is for shows only when it is used. If it is somebody else, you are signed out, and what you wrote here and did not " +
    "send is removed. Go on only if you asked for it yourself.";
  dialog.returnValue = "";
  dialog.showModal();
  return /** @type {Promise<boolean>} */ (
    new Promise((resolve) => {
      dialog.onclose = () => resolve(dialog.returnValue === "switch");
    })
  );
}

/**
 * Who is signed in now, or what is wrong.
 * @param {() => Promise<api.Me>} call
 */
async function attempt(call) {
  try {
    return await call();
  } catch (error) {
    if (error instanceof api.HttpError && error.afterMs > 0) {
      return `Too many sign-ins from here. Try again in ${seconds(error.afterMs)}.`;
    }
    return sentence(error instanceof Error ? error.message : String(error));
  }
}

/**
 * Whether what was shown for a key is a link, or what is behind its address.
 * @param {string} shown
 */
function isLink(shown) {
  return /(^|\/)#c=/.test(shown) || /^https?:/i.test(shown);
}

/** @param {string} problem */
function byForm(problem) {
  const view = byId("sign-in");
  const form = byId("sign-in-form");
  const key = /** @type {HTMLInputElement} */ (byId("key"));
  view.hidden = false;
  document.body.dataset.view = "sign-in";
  complain(problem);
  key.focus();
  addEventListener("hashchange", () => {
    if (location.hash.startsWith("#c=")) location.reload(); // a link was opened in this very tab
  });
  return /** @type {Promise<api.Me>} */ (
    new Promise((resolve) => {
      form.addEventListener("submit", async (event) => {
        event.preventDefault();
        const shown = key.value.trim();
        const entered = isLink(shown) ? LINK_AS_KEY : await attempt(() => api.login({ key: shown }));
        complain(typeof entered === "string" ? entered : "");
        if (typeof entered === "string") return key.select();
        key.value = "";
        view.hidden = true;
        resolve(entered);
      });
    })
  );
}

/** @param {string} problem */
function complain(problem) {
  const error = byId("sign-in-error");
  error.textContent = problem;
  error.hidden = problem === "";
}
