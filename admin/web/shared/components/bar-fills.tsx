// Fills of stacked bars and their legend: a colour each, and a pattern on some, so that no two are told apart by colour alone.

import { useId } from "react";

/** Of a series by its place, of the rest, of what is nobody's, and of what stood idle. */
export type Tone = 1 | 2 | 3 | 4 | 5 | "other" | "nobody" | "idle";

export const TONES: readonly Tone[] = [1, 2, 3, 4, 5];
const COLOURS: Record<Tone, string> = { 1: "var(--series-1)", 2: "var(--series-2)", 3: "var(--series-3)", 4: "var(--series-5)", 5: "var(--series-6)", other: "var(--series-4)", nobody: "var(--line-strong)", idle: "var(--page)" };
const PATTERNED: ReadonlySet<Tone> = new Set<Tone>([2, 3, 5, "nobody", "idle"]);

/** An id for the fills of one drawing. */
export function useFills(): string {
  return `fill${useId().replaceAll(/[^a-zA-Z0-9]/g, "")}`;
}

export const fillOf = (tone: Tone, id: string) => (PATTERNED.has(tone) ? `url(#${id}-${tone})` : COLOURS[tone]);

/** The patterns of a drawing; once in its svg. */
export function Fills({ id }: { id: string }) {
  return (
    <defs>
      <Pattern id={id} tone={2} path="M-1 1 L1 -1 M0 6 L6 0 M5 7 L7 5" />
      <Pattern id={id} tone={5} path="M-1 5 L1 7 M0 0 L6 6 M5 -1 L7 1" />
      <Pattern id={id} tone="nobody" path="M-1 5 L1 7 M0 0 L6 6 M5 -1 L7 1" />
      <Pattern id={id} tone="idle" path="M-1 1 L1 -1 M0 6 L6 0 M5 7 L7 5" colour="var(--text)" />
      <Pattern id={id} tone="more" path="M-1 1 L1 -1 M0 6 L6 0 M5 7 L7 5" colour="var(--text)" />
      <pattern id={`${id}-3`} width="8" height="8" patternUnits="userSpaceOnUse">
        <rect width="8" height="8" fill={COLOURS[3]} /><circle cx="2" cy="2" r="1.1" fill="var(--page)" opacity="0.7" /><circle cx="6" cy="6" r="1.1" fill="var(--page)" opacity="0.7" />
      </pattern>
    </defs>
  );
}

function Pattern({ id, tone, path, colour = "var(--page)" }: { id: string; tone: Tone | "more"; path: string; colour?: string }) {
  return (
    <pattern id={`${id}-${tone}`} width="6" height="6" patternUnits="userSpaceOnUse">
      <rect width="6" height="6" fill={tone === "more" ? "var(--line-strong)" : COLOURS[tone]} /><path d={path} stroke={colour} strokeWidth="1.2" opacity="0.6" />
    </pattern>
  );
}

/** The square of a legend. */
export function Swatch({ tone }: { tone: Tone }) {
  const id = useFills();
  return (
    <svg className="swatch" width="12" height="12" aria-hidden>
      <Fills id={id} /><rect x="0.5" y="0.5" width="11" height="11" rx="2" fill={fillOf(tone, id)} stroke={tone === "idle" ? "var(--text)" : "none"} />
    </svg>
  );
}
