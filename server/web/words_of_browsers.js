// What a browser is called, and when something was. Pure.

const BROWSERS = new Map([
  [/Edg(e|A|iOS)?\//, "Edge"],
  [/OPR\/|Opera/, "Opera"],
  [/SamsungBrowser\//, "Samsung Internet"],
  [/Firefox\/|FxiOS\//, "Firefox"],
  [/Chrome\/|CriOS\/|Chromium\//, "Chrome"],
  [/Safari\//, "Safari"],
]);
const SYSTEMS = new Map([
  [/Windows/, "Windows"],
  [/iPhone/, "an iPhone"],
  [/iPad/, "an iPad"],
  [/Android/, "Android"],
  [/CrOS/, "ChromeOS"],
  [/Mac OS X|Macintosh/, "a Mac"],
  [/Linux|X11/, "Linux"],
]);
const AGENT_MAX = 40;
const MINUTE_MS = 60_000;
const HOUR_MS = 60 * MINUTE_MS;
const DAY_MS = 24 * HOUR_MS;
const JUST_NOW_MS = 2 * MINUTE_MS; // the server notes uses once a minute

/**
 * A browser in words, from what it says of itself.
 * @param {string} agent
 */
export function browserText(agent) {
  const browser = firstOf(BROWSERS, agent);
  const system = firstOf(SYSTEMS, agent);
  if (browser && system) return `${browser} on ${system}`;
  return browser || (system ? `A browser on ${system}` : agent.trim().slice(0, AGENT_MAX) || "An unknown browser");
}

/**
 * How long ago a time was.
 * @param {number} atMs
 * @param {number} nowMs
 */
export function agoText(atMs, nowMs) {
  const past = nowMs - atMs;
  if (past < JUST_NOW_MS) return "just now";
  if (past < HOUR_MS) return count(past / MINUTE_MS, "minute");
  if (past < DAY_MS) return count(past / HOUR_MS, "hour");
  return count(past / DAY_MS, "day");
}

/**
 * @param {number} value
 * @param {string} unit
 */
function count(value, unit) {
  const whole = Math.floor(value);
  return `${whole} ${unit}${whole === 1 ? "" : "s"} ago`;
}

/**
 * @param {Map<RegExp, string>} names
 * @param {string} agent
 */
function firstOf(names, agent) {
  for (const [pattern, name] of names) if (pattern.test(agent)) return name;
  return "";
}
