// How the console and the tenants' portal are built (scripts/page.py runs it): console.html and portal.html become a few
// hashed files, each page of them a file of its own that is loaded when it is opened.

import { fileURLToPath } from "node:url";
import { defineConfig } from "vite";
import { classicScripts, compressed } from "../../scripts/vite_plugins.mjs";

const PAGES = ["console", "portal"];
const ROOT = fileURLToPath(new URL(".", import.meta.url));

export default defineConfig({
  root: ROOT,
  base: "/web/",
  publicDir: false,
  logLevel: "warn",
  plugins: [classicScripts(ROOT, PAGES.map((page) => `${page}.html`), ["theme-early.js"]), compressed()],
  resolve: { alias: { "@": ROOT } },
  build: {
    target: "es2022",
    cssTarget: "esnext",
    emptyOutDir: true,
    license: { fileName: "licences.md" },
    // Its script would be one of the page's own making, which Trusted Types refuses.
    modulePreload: { polyfill: false },
    assetsInlineLimit: 0,
    chunkSizeWarningLimit: 1000,
    rolldownOptions: { input: Object.fromEntries(PAGES.map((page) => [page, `${ROOT}${page}.html`])) },
  },
});
