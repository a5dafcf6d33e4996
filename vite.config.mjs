// How the chat page is built (scripts/page.py runs it): server/web and the browser's client become a few hashed
// files. Mode `modules` is for tests: each module stays one, under its own name.

import { readdirSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { defineConfig } from "vite";
import { classicScripts, compressed } from "./scripts/vite_plugins.mjs";

const ROOT = fileURLToPath(new URL("server/web/", import.meta.url));
const CLIENT = fileURLToPath(new URL("clients/js/src/", import.meta.url));
// Run before the first paint, so they are no modules, and Vite leaves such scripts alone.
const CLASSIC = ["theme-early.js", "send-early.js"];

const page = {
  plugins: [classicScripts(ROOT, ["index.html"], CLASSIC), compressed()],
  resolve: { alias: { "/web/client/": CLIENT } },
  build: {
    license: { fileName: "licences.md" },
    // Its script would be one of the page's own making, which Trusted Types refuses.
    modulePreload: { polyfill: false },
    assetsInlineLimit: 0,
  },
};

const modules = {
  build: {
    minify: false,
    modulePreload: false,
    rolldownOptions: {
      input: readdirSync(ROOT).filter((name) => name.endsWith(".js") && !CLASSIC.includes(name)).map((name) => join(ROOT, name)),
      external: /^\/web\/client\//,
      preserveEntrySignatures: "strict",
      output: { entryFileNames: "[name].js", chunkFileNames: "parts/[name]-[hash].js" },
    },
  },
};

export default defineConfig(({ mode }) => {
  const chosen = mode === "modules" ? modules : page;
  return {
    ...chosen,
    root: ROOT,
    base: "/web/",
    publicDir: false,
    logLevel: "warn",
    build: { target: "es2022", cssTarget: "esnext", emptyOutDir: true, ...chosen.build },
  };
});
