// Moving a tenant to another pool with its live streams: what moves and what does not fit, then how far it is.

import { NativeSelect, TextInput } from "@mantine/core";
import { TriangleAlert } from "lucide-react";
import { useState } from "react";
import { EditDialog, terms, type ErrorOf } from "../../../shared/components/edit-dialog";
import { Facts, type Fact } from "../../../shared/components/facts";
import { api, answered } from "../../../shared/api";
import { StopRun } from "../../../shared/components/stop-run";
import { clock, count } from "../../../shared/format";
import { readOf } from "./desired";
import { MoveProgress } from "./move-progress";
import { buttonOf, kvOf, misfitsOf, partOf, roomOf, type Moved, type Preview } from "./move-words";
import type { Desired } from "./words";
import "./move-tenant.css";

type Dialog = { from: Desired; pools: readonly Desired[]; tenants: readonly string[]; onClose: () => void };

export function MoveTenant({ from, pools, tenants, onClose }: Dialog) {
  const targets = pools.filter((each) => each.pool !== from.pool && each.state === "active" && each.model === from.model && each.version === from.version).map((each) => each.pool);
  const [texts, setTexts] = useState({ tenant: tenants[0] ?? "", to: targets[0] ?? "" });
  const [would, setWould] = useState<{ of: string; preview: Preview | null; at: Date } | null>(null);
  const [run, setRun] = useState("");
  const [read] = useState(() => readOf(from.pool));
  const typed = texts.tenant.trim() && texts.to ? JSON.stringify(texts) : "";
  const shown = would?.of === typed ? would : null;
  const path = { pool: from.pool };
  return (
    <EditDialog
      title={run ? `Moving ${texts.tenant} to ${texts.to}` : "Move a tenant"}
      save={buttonOf(shown?.preview ?? null, "Move tenant")}
      note={shown ? `Preview of ${clock(shown.at)} UTC` : undefined}
      onClose={onClose}
      typed={typed}
      reread={() => readOf(from.pool)}
      send={async (how) => {
        const answer = await answered(api.POST("/api/pools/{pool}/move", { params: { path, ...terms({ ...how, tag: how.dryRun ? undefined : (how.tag ?? (await read)) }) }, body: { ...texts, tenant: texts.tenant.trim(), reason: how.reason } }));
        if (how.dryRun) setWould({ of: typed, preview: (answer as Moved).preview ?? null, at: new Date() });
        return answer;
      }}
      preview={(answer) => "preview" in answer && answer.preview && <MovePreview moved={answer} preview={answer.preview} to={texts.to} />}
      closes="Close"
      beside={run && <StopRun run={run} />}
      saved={(answer) => {
        if (!("run" in answer)) return undefined;
        setRun(answer.run);
        return <MoveProgress run={answer.run} from={from.pool} to={texts.to} />;
      }}
    >
      {(errorOf) => <Fields from={from.pool} tenants={tenants} targets={targets} texts={texts} setTexts={setTexts} errorOf={errorOf} />}
    </EditDialog>
  );
}

type Texts = { tenant: string; to: string };
type FieldsOf = { from: string; tenants: readonly string[]; targets: readonly string[]; texts: Texts; setTexts: (texts: Texts) => void; errorOf: ErrorOf };

function Fields({ from, tenants, targets, texts, setTexts, errorOf }: FieldsOf) {
  const tenant = { label: "Tenant", value: texts.tenant, error: errorOf("tenant"), "data-autofocus": true };
  const named = (value: string) => setTexts({ ...texts, tenant: value });
  return (
    <div className="edit-pair">
      {tenants.length ? <NativeSelect {...tenant} data={[...tenants]} onChange={(event) => named(event.currentTarget.value)} /> : <TextInput {...tenant} onChange={(event) => named(event.currentTarget.value)} autoComplete="off" spellCheck={false} />}
      <NativeSelect label={`From ${from} to`} value={texts.to} onChange={(event) => setTexts({ ...texts, to: event.currentTarget.value })} data={[...targets]} disabled={!targets.length} error={targets.length ? errorOf("to") : "No other pool runs the same version of its model: create one first."} />
    </div>
  );
}

function MovePreview({ moved, preview, to }: { moved: Moved; preview: Preview; to: string }) {
  const facts: Fact[] = [["New requests", routingOf(moved)], ...previewFacts(preview, to)];
  return <div className="move-preview"><Facts boxed label="What moves" facts={facts} /><Misfits preview={preview} to={to} /></div>;
}

function routingOf({ to, enters, leaves }: Moved): string {
  const changes = [enters && `${to} lets it in`, leaves.length > 0 && `${leaves.join(", ")} no more`];
  return [`go to ${to} at once`, ...changes.filter(Boolean)].join("; ");
}

/** Facts of any move, for this dialog and that of requests. */
export function previewFacts(preview: Preview, to: string): Fact[] {
  const kv = kvOf(preview);
  return [
    ["Live streams that move", <><b>{partOf(preview.streams, preview.streams_of)}</b>{preview.streams ? ", a short pause each" : ""}</>],
    ["Waiting requests that move", <><b>{partOf(preview.waiting, preview.waiting_of)}</b>{preview.waiting ? ", keep their age" : ""}</>],
    [`Room in ${to}`, roomOf(preview)],
    ...(kv ? [[`KV in ${to}`, kv] satisfies Fact] : []),
    ["Recomputed", `${count(preview.recomputed_tokens)} tokens, not billed`],
    ...(preview.price ? [["Price afterwards", preview.price] satisfies Fact] : []),
  ];
}

/** What does not fit, in amber. */
export function Misfits({ preview, to }: { preview: Preview; to: string }) {
  return misfitsOf(preview, to).map(({ lead, rest }) => (
    <p key={lead} className="edit-warning move-misfit"><TriangleAlert size={16} className="warn" aria-hidden /><span><b>{lead}</b> {rest}</span></p>
  ));
}
