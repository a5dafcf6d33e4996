// Signing in: by the one-time code in the address, by the cookie of an earlier time, or by a key that is pasted.

import * as api from "./api.js";
import { byId } from "./dom.js";
import { seconds, sentence } from "./words.js";

/** Resolves once the browser is signed in. The code is dropped from the address before anything else happens. */
export async function signIn() {
  const code = /^#c=([\w.-]+)$/.exec(location.hash)?.[1];
  if (code) history.replaceState(null, "", location.pathname);
  const problem = code ? await attempt(() => api.login({ code })) : "";
  if (code && problem === "") return;
  const known = await api.me().catch((/** @type {unknown} */ error) => error);
  if (!(known instanceof Error)) return;
  const why = known instanceof api.HttpError && known.code === api.SIGNED_OUT ? "" : sentence(known.message);
  await byForm(problem || why);
}

/**
 * "" where it worked, else what is wrong.
 * @param {() => Promise<unknown>} call
 */
async function attempt(call) {
  try {
    await call();
    return "";
  } catch (error) {
    if (error instanceof api.HttpError && error.afterMs > 0) {
      return `Too many sign-ins from here. Try again in ${seconds(error.afterMs)}.`;
    }
    return sentence(error instanceof Error ? error.message : String(error));
  }
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
  return /** @type {Promise<void>} */ (
    new Promise((resolve) => {
      form.addEventListener("submit", async (event) => {
        event.preventDefault();
        const wrong = await attempt(() => api.login({ key: key.value.trim() }));
        complain(wrong);
        if (wrong !== "") return key.select();
        key.value = "";
        view.hidden = true;
        resolve();
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
