// A section of a page: a heading, what it says beside it, links at its right, a hairline below.

import type { ReactNode } from "react";

export function Section({ title, note, end, children }: { title: string; note?: ReactNode; end?: ReactNode; children: ReactNode }) {
  return (
    <section className="section" aria-label={title}>
      <div className="section-head"><h2>{title}</h2>{note && <span className="note">{note}</span>}<span className="end">{end}</span></div>
      {children}
    </section>
  );
}
