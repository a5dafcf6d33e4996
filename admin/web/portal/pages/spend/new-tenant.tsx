// What a tenant sees that has spent nothing yet: the four steps to its first call.

import { Check } from "lucide-react";
import type { ReactNode } from "react";
import { CopyButton } from "../../../shared/components/command";
import { Section } from "../../../shared/components/section";
import { money } from "../../../shared/format";
import { limitOf, monthBudget, type Summary } from "./words";

const CALL = `curl $PARLEY_URL/v1/chat/completions \\
  -H "Authorization: Bearer $PARLEY_KEY" \\
  -H "Content-Type: application/json" \\
  -d '{"model": "MODEL",
       "messages": [{"role": "user", "content": "Hello"}]}'`;

export function FirstCall({ summary }: { summary: Summary }) {
  const budget = monthBudget(summary);
  return (
    <Section title="Make the first call">
      <ol className="steps">
        <Step done title="Project default was made for you">{budget ? `With a budget of ${money(limitOf(budget))} a month, so that a loop cannot cost more.` : "Without a budget. Set one, so that a loop cannot cost more than you like."}</Step>
        <Step number={2} title="Make a key">It is shown once.</Step>
        <Step number={3} title="Send something">
          Put your gateway’s address and the key in the place of the two names.
          <div className="first-call"><pre tabIndex={0} aria-label="The call">{CALL}</pre><CopyButton text={CALL} of="the call" /></div>
        </Step>
        <Step number={4} title="See what it cost">Waiting for the first call…</Step>
      </ol>
    </Section>
  );
}

function Step({ title, number, done = false, children }: { title: string; number?: number; done?: boolean; children: ReactNode }) {
  return (
    <li className={done ? "step done" : "step"}>
      <span className="step-mark" aria-hidden>{done ? <Check size={14} /> : number}</span>
      <div><h3>{title}{done && <span className="unseen"> (done)</span>}</h3><div className="note">{children}</div></div>
    </li>
  );
}
