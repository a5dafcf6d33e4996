// The safety rules that hold for a tenant, and what they do to a text.

import { Button, Modal, SegmentedControl, Textarea } from "@mantine/core";
import { useMutation, useQuery } from "@tanstack/react-query";
import { useState } from "react";
import { DataTable } from "../../../shared/components/data-table";
import { Facts, type Fact } from "../../../shared/components/facts";
import { Section } from "../../../shared/components/section";
import { StateShape } from "../../../shared/components/state";
import { api, answered, type Problem, type Schemas } from "../../../shared/api";
import { count } from "../../../shared/format";
import { useSession } from "../../../shared/session";
import { sentence } from "../../../shared/words";
import { EditPolicy } from "./policy";

type Rule = { name: string; action?: string | null; prompt?: string | null; scope?: string };
type Trial = Schemas["Trial"];

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
      {opened === "try" && <TryText tenant={tenant} onClose={() => setOpened("")} />}
      {opened === "edit" && <EditPolicy tenant={tenant} onClose={() => setOpened("")} />}
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

function TryText({ tenant, onClose }: { tenant: string; onClose: () => void }) {
  const [text, setText] = useState("");
  const [side, setSide] = useState("answer");
  const tried = useMutation<Schemas["TriedPolicy"], Problem>({
    mutationFn: () => answered(api.POST("/api/safety/try", { body: { tenant, text, as_prompt: side === "prompt" } })),
  });
  return (
    <Modal opened onClose={onClose} title={`Try a text by the rules of ${tenant}`} size={560} closeOnClickOutside={false}>
      <form className="edit" onSubmit={(event) => { event.preventDefault(); if (text) tried.mutate(); }}>
        <Textarea label="Text" description="It is kept nowhere." value={text} onChange={(event) => setText(event.currentTarget.value)} rows={4} error={tried.error ? sentence(tried.error.detail) : undefined} data-autofocus />
        <SegmentedControl aria-label="As" value={side} onChange={setSide} data={[{ value: "answer", label: "As an answer" }, { value: "prompt", label: "As a prompt" }]} transitionDuration={0} />
        {tried.data && <Outcome trial={tried.data.trial} />}
        <div className="edit-foot"><Button variant="default" onClick={onClose}>Close</Button><Button type="submit" loading={tried.isPending}>Try</Button></div>
      </form>
    </Modal>
  );
}

function Outcome({ trial }: { trial: Trial }) {
  const said = trial.block ? `Blocked by ${trial.block.category}.` : trial.matches.length ? "Let through, with what the rules make of it." : "Let through: no rule matches.";
  return (
    <div role="status">
      <p className="state"><StateShape state={trial.block ? "blocked" : "well"} /> <b>{said}</b></p>
      {trial.shown && <><p className="note">What is shown</p><p className="tried">{trial.shown}</p></>}
      {trial.matches.length > 0 && (
        <DataTable
          label="Matches"
          rows={trial.matches}
          keyOf={(match) => `${match.p} ${match.n} ${match.category}`}
          columns={[
            { title: "Rule", cell: (match) => <b>{match.category}</b> },
            { title: "Does", phone: "end", cell: (match) => match.action },
            { title: "Whose", cell: (match) => match.scope },
            { title: "Text", cell: (match) => match.text },
            { title: "At", number: true, cell: (match) => count(match.p) },
          ]}
        />
      )}
    </div>
  );
}
