// An amount with all its nine decimals, in groups of three by margins, so that a copy is plain. Below a cent the zeros
// before the first digit are soft, else the tail behind the cents.

import { NOBODY_KNOWS, money, type Money } from "../format";
import "./exact.css";

export function Exact({ amount, bold = false }: { amount: Money | null | undefined; bold?: boolean }) {
  if (!amount) return <>{NOBODY_KNOWS}</>;
  return <span className={bold ? "exact exact-bold" : "exact"}>{partsOf(money(amount, 9)).map(({ text, soft, gap }, index) => <span key={index} className={`${soft ? "exact-soft" : ""} ${gap ? "exact-gap" : ""}`}>{text}</span>)}</span>;
}

/** An amount of nine decimals in parts: `gap`: a group of three begins; `soft`: what is no figure of weight. Pure. */
export function partsOf(text: string): { text: string; soft: boolean; gap: boolean }[] {
  const point = text.length - 10;
  const first = text.search(/[1-9]/);
  const small = first < 0 || first > point + 2;
  const sign = /^\u2212/.test(text) ? 1 : 0;
  const soft = (at: number) => at >= sign && (small ? first >= 0 && at < first : at > point + 2);
  const cuts = new Set([0, sign, point + 4, point + 7, small ? Math.max(first, 0) : point + 3]);
  const starts = [...cuts].filter((at) => at < text.length).sort((one, other) => one - other);
  return starts.map((at, index) => ({ text: text.slice(at, starts[index + 1]), soft: soft(at), gap: at === point + 4 || at === point + 7 }));
}
