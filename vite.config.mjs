// How the chat page is built (scripts/page.py runs it): server/web and the browser's client become a few hashed
// files. Mode `modules` is for tests: each module stays one, under its own name.

import { readFileSync, readdirSync, writeFileSync } from "node:fs";
import { createHash } from "node:crypto";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { brotliCompressSync, gzipSync } from "node:zlib";
import { minifySync } from "rolldown/utils";
import { defineConfig } from "vite";

const ROOT = fileURLToPath(new URL("server/web/", import.meta.url));
const CLIENT = fileURLToPath(new URL("clients/js/src/", import.meta.url));
// Run before the first paint, so they are no modules, and Vite leaves such scripts alone.
const CLASSIC = ["theme-early.js", "send-early.js"];

/** Gives classic scripts a hashed name too. */
function classicScripts() {
  return {
    name: "classic-scripts",
    /** @param {unknown} _options @param {Record<string, any>} bundle */
    generateBundle: {
      order: "post",
      handler(_options, bundle) {
        const page = bundle["index.html"];
        for (const name of CLASSIC) {
          const source = minifySync(name, readFileSync(join(ROOT, name), "utf8")).code;
          const hash = createHash("sha256").update(source).digest("base64url").slice(0, 8);
          const fileName = `assets/${name.replace(/\.js$/, "")}-${hash}.js`;
          this.emitFile({ type: "asset", fileName, source });
          const written = page.source.replace(`src="./${name}"`, `src="/web/${fileName}"`);
          if (written === page.source) this.error(`index.html has no script ${name}`);
          page.source = written;
        }
      },
    },
  };
}

/** Lays FILE.br and FILE.gz beside each file: the gateway compresses nothing itself. */
function compressed() {
  return {
    name: "compressed",
    /** @param {{dir: string}} options @param {Record<string, unknown>} bundle */
    writeBundle({ dir }, bundle) {
      for (const name of Object.keys(bundle)) {
        const content = readFileSync(join(dir, name));
        writeFileSync(join(dir, `${name}.br`), brotliCompressSync(content));
        writeFileSync(join(dir, `${name}.gz`), gzipSync(content, { level: 9 }));
      }
    },
  };
}

const page = {
  plugins: [classicScripts(), compressed()],
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
