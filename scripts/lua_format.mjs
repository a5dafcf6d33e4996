// Formats Lua files by StyLua: `node scripts/lua_format.mjs [--check] FILE…`. Called by scripts/lua.py.
// With --check nothing is written; each file that is formatted otherwise is named, and the exit code is 1.
import { readFileSync, writeFileSync } from "node:fs";
import {
  Config, IndentType, OutputVerification, QuoteStyle, formatCode,
} from "@johnnymorganz/stylua";

const SHEBANG = /^#!.*\n/; // Redis reads flags there; to StyLua it is no Lua

function config() {
  const made = Config.new();
  made.column_width = 120;
  made.indent_type = IndentType.Spaces;
  made.indent_width = 2;
  made.quote_style = QuoteStyle.AutoPreferSingle;
  return made;
}

const given = process.argv.slice(2);
const check = given[0] === "--check";
let wrong = 0;
for (const file of check ? given.slice(1) : given) {
  const text = readFileSync(file, "utf8");
  const [shebang] = text.match(SHEBANG) ?? [""];
  let formatted;
  try {
    formatted = shebang + formatCode(text.slice(shebang.length), config(), undefined, OutputVerification.Full);
  } catch (error) {
    console.error(`${file}: ${error}`);
    wrong += 1;
    continue;
  }
  if (formatted === text) continue;
  if (check) {
    console.error(`${file} is formatted otherwise: run make format`);
    wrong += 1;
  } else {
    writeFileSync(file, formatted);
    console.log(file);
  }
}
process.exit(wrong ? 1 : 0);
