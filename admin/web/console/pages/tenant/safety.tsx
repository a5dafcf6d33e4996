// The safety rules that hold for a tenant, and what they do to a text.

import { useQuery } from "@tanstack/react-query";
import { useState } from "react";
import { Facts, type Fact } from "../../../shared/components/facts";
import { Section } from "../../../shared/components/section";
import { api, answered } from "../../../shared/api";
import { count } from "../../../shared/format";
import { useSession } from "../../../shared/session";
import { EditPolicy } from "../../../shared/safety/edit-policy";
import { TryText } from "../../../shared/safety/try-text";

type Rule = { name: string; action?: string | null; prompt?: string | null; scope?: string };

export function Safety({ tenant }: { tenant: string }) {
  const { may } = useSession();
  return may("safety.merged") ? <Rules tenant={tenant} /> : null;
}

function Rules({ tenant }: { tenant: string }) {
  const { may } = useSession();
  const [opened, setOpened] = useState<"try" | "edit" | "">("");
  const { data, error } = useQuery({ queryKey: ["safety", tenant], queryFn: () => answered(api.GET("/api/safety/merged", { params: { query: { tenant } } })) });
  const today = useToday(tenant);
  const rules = data ? rulesOf(data.document) : [];
  const end = (
    <span className="row-links">
      {may("safety.try") && <button type="button" className="link" onClick={() => setOpened("try")}>Try a text…</button>}
      {may("safety.set") && <button type="button" className="link" onClick={() => setOpened("edit")}>Edit rules…</button>}
    </span>
  );
  return (
    <Section title="Safety" note="all that holds" end={end}>
      {error ? <p className="soft">{error.message}</p> : !data ? <span className="skeleton" /> : rules.length ? <Facts label="Safety rules" facts={[...rules.map(factOf), ...today]} /> : <p className="soft">No rule: nothing is looked for in its texts.</p>}
      {opened === "try" && <TryText tenant={tenant} of={tenant} onClose={() => setOpened("")} />}
      {opened === "edit" && <EditPolicy tenant={tenant} title={`Safety rules of ${tenant}`} onClose={() => setOpened("")} />}
    </Section>
  );
}

/** What safety found today, of how many requests. */
function useToday(tenant: string): Fact[] {
  const { may } = useSession();
  const { data } = useQuery({ queryKey: ["safety today", tenant], queryFn: () => answered(api.GET("/api/safety/stats", { params: { query: { tenant, days: 1 } } })), enabled: may("safety.stats"), refetchInterval: 60_000 });
  const found = data?.items[0]?.found;
  return found ? [["Today", `${count(found.blocked)} blocked of ${count(found.requests)}`]] : [];
}

function rulesOf(document: Record<string, unknown>): Rule[] {
  return ["detectors", "patterns", "words"].flatMap((kind) => (Array.isArray(document[kind]) ? (document[kind] as Rule[]) : []));
}

function factOf(rule: Rule): Fact {
  const does = [rule.action ? `${rule.action} answers` : "", rule.prompt ? `${rule.prompt} prompts` : ""].filter(Boolean).join(", ");
  return [rule.name, <>{does || "nothing"}{rule.scope && rule.scope !== "tenant" ? <span className="soft"> · {rule.scope}</span> : ""}</>];
}
