// What the builds of our pages share (vite.config.mjs, admin/web/vite.config.mjs).

import { readFileSync, writeFileSync } from "node:fs";
import { createHash } from "node:crypto";
import { join } from "node:path";
import { brotliCompressSync, gzipSync } from "node:zlib";
import { minifySync } from "rolldown/utils";

/**
 * Gives classic scripts, which Vite leaves alone, a hashed name too. They run before the first paint.
 * @param {string} root folder of the pages @param {string[]} pages their names there @param {string[]} names
 */
export function classicScripts(root, pages, names) {
  return {
    name: "classic-scripts",
    /** @param {unknown} _options @param {Record<string, any>} bundle */
    generateBundle: {
      order: "post",
      handler(_options, bundle) {
        for (const name of names) {
          const source = minifySync(name, readFileSync(join(root, name), "utf8")).code;
          const hash = createHash("sha256").update(source).digest("base64url").slice(0, 8);
          const fileName = `assets/${name.replace(/\.js$/, "")}-${hash}.js`;
          this.emitFile({ type: "asset", fileName, source });
          for (const page of pages) {
            const html = bundle[page];
            const written = html.source.replace(`src="./${name}"`, `src="/web/${fileName}"`);
            if (written === html.source) this.error(`${page} has no script ${name}`);
            html.source = written;
          }
        }
      },
    },
  };
}

/** Lays FILE.br and FILE.gz beside each file: our servers compress nothing themselves. */
export function compressed() {
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
