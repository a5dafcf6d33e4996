// A strip of numbers: label, number with its unit, a line that explains it, and how it was (`over` what) as a sparkline.

import type { ReactNode } from "react";
import { Sparkline } from "./sparkline";
import "./strip.css";

export type StripItem = { label: string; value: string; unit?: string; note: ReactNode; series?: readonly (number | null)[]; over?: string; bad?: boolean };

export function Strip({ items, label }: { items: readonly StripItem[]; label: string }) {
  return (
    <dl className={items.length === 4 ? "strip four" : "strip"} aria-label={label}>
      {items.map((item) => (
        <div key={item.label} className="strip-item">
          <dt className="note">{item.label}</dt>
          <dd>
            <p className={item.bad ? "strip-value bad" : "strip-value"}>{item.value} {item.unit && <span className="note">{item.unit}</span>}</p>
            <p className="note strip-note">{item.note}</p>
            {item.series && <Sparkline series={item.series} bad={item.bad ?? false} label={`${item.label}, ${item.over ?? "last hour"}`} />}
          </dd>
        </div>
      ))}
    </dl>
  );
}
