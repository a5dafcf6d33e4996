// What is looked for in the tenant's prompts and answers: Parley's floor beside its own rules, what was found, and by whom
// the rules were set.

import { Button } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { useState, type ReactNode } from "react";
import { DataTable, type Column } from "../../../shared/components/data-table";
import { LoadMore, usePages } from "../../../shared/components/load-more";
import { Section } from "../../../shared/components/section";
import { Unanswered, type Question } from "../../../shared/components/unanswered";
import { api, answered, type Schemas } from "../../../shared/api";
import { count } from "../../../shared/format";
import { EditPolicy } from "../../../shared/safety/edit-policy";
import type { Kind } from "../../../shared/safety/policy-rules";
import { TryText } from "../../../shared/safety/try-text";
import { useSession } from "../../../shared/session";
import { OldFigures } from "../../old-figures";
import { useTimes, useZone } from "../../../shared/zone";
import { ReadOnly } from "../../read-only";
import { useTenant } from "../../tenant";
import { floorOf, foundBy, heldRules, leadOf, type Found, type Held } from "./safety-words";

const DAYS = 30;

export function SafetyPage() {
  const { id } = useTenant();
  const zone = useZone().name;
  const { may } = useSession();
  const [opened, setOpened] = useState<"try" | "edit" | "">("");
  const query = { tenant: id };
  const rulesAsked = useQuery({ queryKey: ["safety", id], queryFn: () => answered(api.GET("/api/safety/merged", { params: { query } })) });
  const statsAsked = useQuery({ queryKey: ["safety found", id], queryFn: () => answered(api.GET("/api/safety/stats", { params: { query: { ...query, days: DAYS } } })), refetchInterval: 60_000 });
  const [held, stats] = [rulesAsked.data, statsAsked.data];
  const rules = held && heldRules(held.document);
  return (
    <>
      <div className="page-head">
        <h1 className="page-title">Safety</h1>
        <span className="end">
          {may("safety.try") && <Button variant="default" onClick={() => setOpened("try")}>Try a text…</Button>}
          {may("safety.set") && <Button onClick={() => setOpened("edit")}>Edit your rules…</Button>}
        </span>
      </div>
      <p className="meta">Times are those of {zone}.</p>
      {rules ? <p className="lead">{leadOf(rules, stats?.items.map((each) => each.found) ?? [])}</p> : <div className="lead"><Unanswered asked={rulesAsked} /></div>}
      <OldFigures />
      <ReadOnly operation="safety.set" what="change rules" />
      <Rules rules={rules} asked={rulesAsked} />
      <WhatWasFound found={stats && foundBy(stats.items.map((each) => each.found))} asked={statsAsked} />
      <Versions tenant={id} />
      {opened === "try" && <TryText tenant={id} onClose={() => setOpened("")} />}
      {opened === "edit" && <EditPolicy tenant={id} title="Your safety rules" floor={floorOf(rules ?? [])} onClose={() => setOpened("")} />}
    </>
  );
}

const RULES: Column<Held>[] = [
  { title: "Rule", cell: (rule) => <><b>{rule.name}</b> <span className="soft">{KIND_WORDS[rule.kind]}</span></> },
  { title: "In prompts", cell: (rule) => does(rule.prompt) },
  { title: "In answers", cell: (rule) => does(rule.action) },
  { title: "Whose", phone: "end", cell: (rule) => (rule.scope === "platform" ? "Parley’s floor" : rule.scope === "tenant" ? "yours" : "a project’s") },
];

const KIND_WORDS: Record<Kind, string> = { detectors: "", patterns: "pattern", words: "words" };
const does = (action: string | null | undefined): ReactNode => action ?? <span className="soft">–</span>;

function Rules({ rules, asked }: { rules: readonly Held[] | undefined; asked: Question }) {
  return (
    <Section title="What is looked for?" note="Parley’s floor holds for everybody; yours can only be stricter.">
      {!rules ? <Unanswered asked={asked} /> : rules.length ? <DataTable label="Rules that hold" columns={RULES} rows={rules} keyOf={(rule) => `${rule.kind} ${rule.name}`} /> : <p className="soft">No rule: nothing is looked for in your texts.</p>}
    </Section>
  );
}

const FOUND: Column<Found>[] = [
  { title: "Rule", cell: (row) => <b>{row.category}</b> },
  { title: "In", cell: (row) => `${row.of}s` },
  { title: "Done", phone: "end", cell: (row) => row.action },
  { title: "Times", number: true, cell: (row) => count(row.verdicts) },
  { title: "Requests", number: true, cell: (row) => count(row.requests) },
];

function WhatWasFound({ found, asked }: { found: readonly Found[] | undefined; asked: Question }) {
  return (
    <Section title="What was found?" note={`the last ${DAYS} days; no text is kept`}>
      {!found ? <Unanswered asked={asked} /> : found.length ? <DataTable label="What was found" columns={FOUND} rows={found} keyOf={(row) => `${row.category} ${row.of} ${row.action}`} /> : <p className="soft">Nothing in {DAYS} days.</p>}
    </Section>
  );
}

type Version = Schemas["PolicyHistoryVersion"];

const versionColumns = (at: ReturnType<typeof useTimes>): Column<Version>[] => [
  { title: "Version", cell: (row) => <b className="tabular">{row.version.version}</b> },
  { title: "Time", cell: (row) => <span className="nowrap tabular">{at(row.version.created)}</span> },
  { title: "Who", phone: "end", cell: (row) => <bdi title={row.version.author}>{row.who}</bdi> },
  { title: "Why", cell: (row) => (row.version.reason ? <span className="soft">“{row.version.reason}”</span> : "") },
  { title: "Lines changed", number: true, cell: (row) => count(row.diff.filter((line) => /^[+-](?![+-])/.test(line)).length) },
];

function Versions({ tenant }: { tenant: string }) {
  const at = useTimes();
  const { items, more, asked } = usePages<Version>(["safety versions", tenant], (after) => answered(api.GET("/api/safety/versions", { params: { query: { tenant, after, limit: 10 } } })));
  return (
    <Section title="Who set your rules?" note="the newest first">
      {!items ? <Unanswered asked={asked} /> : items.length ? <DataTable label="Versions of your rules" columns={versionColumns(at)} rows={items} keyOf={(row) => String(row.version.version)} /> : <p className="soft">You have no rules of your own yet.</p>}
      <LoadMore more={more} what="versions" />
    </Section>
  );
}
