// Numbers, times and money as people read them. Pure.

const whole = new Intl.NumberFormat("en");
const fixed = [0, 1, 2, 3].map((digits) => new Intl.NumberFormat("en", { minimumFractionDigits: digits, maximumFractionDigits: digits }));
export const NOBODY_KNOWS = "–";

/** A whole number with groups of three; a dash where nobody knows it. */
export function count(value: number | null | undefined): string {
  return value === null || value === undefined ? NOBODY_KNOWS : whole.format(value);
}

/** A number with this many digits behind the point. */
export function decimal(value: number | null | undefined, digits: 0 | 1 | 2 | 3 = 2): string {
  return value === null || value === undefined ? NOBODY_KNOWS : (fixed[digits] as Intl.NumberFormat).format(value);
}

/** A share, 0 to 1, as per cent without the sign: whole above 1 %, else two digits. */
export function percent(share: number | null | undefined): string {
  if (share === null || share === undefined) return NOBODY_KNOWS;
  const value = share * 100;
  return value === 0 || value >= 1 ? decimal(value, 0) : decimal(value, 2);
}

/** Seconds as a time that is waited: 0.31 s, 12 s, 4 min, 3 h, 2 d. */
export function lasting(seconds: number): string {
  if (seconds < 10) return `${decimal(seconds, seconds < 1 ? 2 : 1)} s`;
  if (seconds < 120) return `${decimal(seconds, 0)} s`;
  if (seconds < 7200) return `${decimal(seconds / 60, 0)} min`;
  return seconds < 172_800 ? `${decimal(seconds / 3600, 0)} h` : `${decimal(seconds / 86_400, 0)} d`;
}

/** A time of day in UTC. */
export function clock(time: Date | string): string {
  return new Date(time).toISOString().slice(11, 19);
}

/** Date and time in UTC, as rows and hovers have it. */
export function moment(time: Date | string | null | undefined): string {
  if (!time) return NOBODY_KNOWS;
  const text = new Date(time).toISOString();
  return `${text.slice(0, 10)} ${text.slice(11, 19)} UTC`;
}

/** How long ago, beside a moment on hover. */
export function ago(time: Date | string, now: number = Date.now()): string {
  return `${lasting(Math.max(0, (now - new Date(time).getTime()) / 1000))} ago`;
}

/** Money as the API gives it. */
export type Money = { nano: string; currency: string };

/** An amount in units with two digits (half to even), or all nine: never a float. Minus is U+2212. */
export function money(amount: Money | null | undefined, digits: 2 | 9 = 2): string {
  if (!amount) return NOBODY_KNOWS;
  const nano = BigInt(amount.nano);
  return digits === 9 ? written(nano, 9) : centsText(centsOf(nano));
}

/** An amount in whole cents, half to even. */
export function centsOf(nano: bigint): bigint {
  if (nano < 0n) return -centsOf(-nano);
  const cent = 10_000_000n;
  const [cents, rest] = [nano / cent, nano % cent];
  const up = rest * 2n > cent || (rest * 2n === cent && cents % 2n === 1n);
  return up ? cents + 1n : cents;
}

/** Cents as units with two digits. */
export const centsText = (cents: bigint) => written(cents, 2);

export function written(amount: bigint, digits: number): string {
  const [size, unit] = [amount < 0n ? -amount : amount, 10n ** BigInt(digits)];
  const text = `${whole.format(size / unit)}.${(size % unit).toString().padStart(digits, "0")}`;
  return amount < 0n ? `\u2212${text}` : text;
}

/** What somebody typed, like 1,250.50, as nano; null where it is no amount. */
export function nanoOf(text: string): string | null {
  const [, units = "", part = ""] = /^(\d{1,9})(?:\.(\d{1,9}))?$/.exec(text.replaceAll(/[ ,]/g, "")) ?? [];
  return units ? String(BigInt(units) * 1_000_000_000n + BigInt(part.padEnd(9, "0"))) : null;
}
