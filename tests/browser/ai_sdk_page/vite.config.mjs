// Builds the test's page with the real SDK: `readme/chat.jsx` is the example in clients/js/README.md, whose address
// is replaced by what the test gives.

import { readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { defineConfig } from "vite";

const CLIENT = fileURLToPath(new URL("../../../clients/js/", import.meta.url));
const EXAMPLE = `${CLIENT}chat.jsx`;
const ADDRESS = 'url: "wss://chat.example.com/v1/ws",';

/** The example as a module. */
function readme() {
  return {
    name: "readme",
    /** @param {string} id */
    resolveId: (id) => (id === "readme/chat.jsx" ? EXAMPLE : null),
    /** @param {string} id */
    load(id) {
      if (id !== EXAMPLE) return null;
      const [, code] = /```jsx\n(.+?)```/s.exec(readFileSync(`${CLIENT}README.md`, "utf8")) ?? [];
      if (!code?.includes(ADDRESS)) throw new Error("the README has no example with an address");
      return code.replace(ADDRESS, "...globalThis.given,");
    },
  };
}

export default defineConfig({
  root: fileURLToPath(new URL(".", import.meta.url)),
  base: "./",
  plugins: [readme()],
  publicDir: false,
  logLevel: "warn",
  resolve: { alias: { "parley-client/ai-sdk": `${CLIENT}src/ai_sdk.js` } },
  build: { target: "es2022", minify: false, modulePreload: false, emptyOutDir: true },
});
