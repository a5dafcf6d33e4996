// The sentence a page opens with: it answers the page's question; numbers prove it below.

import { CircleCheck, CircleHelp, TriangleAlert } from "lucide-react";
import { Told } from "./told";
import "./sentence.css";

export type Verdict = "well" | "warn" | "bad" | "unknown";

const SHAPES = { well: [CircleCheck, "accent"], warn: [TriangleAlert, "warn"], bad: [TriangleAlert, "bad"], unknown: [CircleHelp, "warn"] } as const;

export function Sentence({ state, text, detail }: { state: Verdict; text: string; detail: string }) {
  const [Shape, colour] = SHAPES[state];
  return (
    <header className="sentence" role="group" aria-label="Verdict">
      <Shape size={22} className={colour} aria-hidden />
      <div>
        <h1>{text}</h1>
        <p className="soft"><Told text={detail} /></p>
      </div>
    </header>
  );
}
