// What a tenant sees that has spent nothing yet: the four steps to its first call.

import { Button } from "@mantine/core";
import { Link } from "@tanstack/react-router";
import { Check } from "lucide-react";
import type { ReactNode } from "react";
import { Programs } from "../../../shared/api-keys/programs";
import { Section } from "../../../shared/components/section";
import { money } from "../../../shared/format";
import { useSession } from "../../../shared/session";
import { useTenant } from "../../tenant";
import { limitOf, monthBudget, type Summary } from "./words";

export function FirstCall({ summary }: { summary: Summary }) {
  const { me, may } = useSession();
  const { name } = useTenant();
  const budget = monthBudget(summary);
  return (
    <Section title="Make the first call">
      <ol className="steps">
        <Step done title="Project default was made for you">{budget ? `With a budget of ${money(limitOf(budget))} a month, so that a loop cannot cost more.` : "Without a budget. Set one, so that a loop cannot cost more than you like."}</Step>
        <Step number={2} title="Make a key">{may("keys.create") ? <>It is shown once.<p><Button component={Link} to="/keys" size="xs">Keys</Button></p></> : "An admin or a developer of your tenant makes it."}</Step>
        <Step number={3} title="Send something">
          {me.gateway ? (
            <>
              To {name}’s own address, with the key in the place of YOUR_KEY.
              <div className="key-snippets first-call"><Programs gateway={me.gateway} secret="YOUR_KEY" shown="YOUR_KEY" of="the program" /></div>
            </>
          ) : "To the address that whoever runs Parley gave you."}
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
