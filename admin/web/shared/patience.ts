// Files of pages that are loaded when they are opened: where nobody answers, they are waited for.

const AGAIN_MS = 2000;

/** Whether somebody answers at this address: a browser that loads the page anew would show it. */
export const isThere = () => fetch("/api/me", { cache: "no-store" }).then(({ status }) => status < 500, () => false);

/** Load a page's file. Raises where it is not there though somebody answers: it was of another version. */
export async function patiently<Page>(load: () => Promise<Page>): Promise<Page> {
  for (;;) {
    try {
      return await load();
    } catch (error) {
      if (await isThere()) throw error;
      await new Promise((done) => setTimeout(done, AGAIN_MS));
    }
  }
}
