// A tenant's own safety rules, edited: what would change and what is lost is said before it is saved.

import { Button, NativeSelect, Textarea, TextInput } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { X } from "lucide-react";
import { useState } from "react";
import type { FromTo, Standing } from "../components/edit-conflict";
import { EditDialog } from "../components/edit-dialog";
import { api, answered, type Schemas } from "../api";
import { ago } from "../format";
import { sentence } from "../words";
import { DETECTORS, documentOf, KINDS, lackOf, rulesOf, type Action, type Kind, type Rule } from "./policy-rules";
import "./policy.css";

type Shown = Schemas["ShownPolicy"];
type Change = Schemas["PolicyChange"];

const read = (tenant: string) => answered(api.GET("/api/safety/policy", { params: { query: { tenant } } }));

/** Whose rules. `floor`: what the platform does at least, by detector; weaker choices are not offered. */
type Asked = { tenant: string; title: string; floor?: Floor; onClose: () => void };
export type Floor = ReadonlyMap<string, { action: Action; prompt: Action }>;

export function EditPolicy({ tenant, title, floor, onClose }: Asked) {
  const { data } = useQuery({ queryKey: ["policy as it was", tenant], queryFn: () => read(tenant), staleTime: Infinity, gcTime: 0 });
  return data ? <Form tenant={tenant} title={title} floor={floor ?? NO_FLOOR} began={data} onClose={onClose} /> : null;
}

const NO_FLOOR: Floor = new Map();

function Form({ tenant, title, floor, began: given, onClose }: Asked & { floor: Floor; began: Shown }) {
  const [began, setBegan] = useState(given); // as it was when the dialog opened, or was taken again
  const [rules, setRules] = useState(() => rulesOf(began.document));
  const [tried, setTried] = useState(false);
  const document = documentOf(rules);
  const lacks = rules.filter((rule) => lackOf(rule));
  const changed = JSON.stringify(document) !== JSON.stringify(documentOf(rulesOf(began.document)));
  const set = (id: number, part: Partial<Rule>) => setRules(rules.map((rule) => (rule.id === id ? { ...rule, ...part } : rule)));
  const add = (kind: Kind) => {
    setTried(false);
    setRules([...rules, { id: Math.max(-1, ...rules.map((rule) => rule.id)) + 1, kind, name: "", action: null, prompt: null, text: "", rest: {} }]);
  };
  const reread = async (): Promise<Standing> => {
    const now = await read(tenant);
    const fill = () => {
      setBegan(now);
      setRules(rulesOf(now.document));
    };
    return { tag: String(now.base), take: { label: `Take version ${now.base}`, fill } };
  };
  return (
    <EditDialog
      title={title}
      save="Save"
      onClose={onClose}
      tag={String(began.base)}
      conflictOn="base"
      reread={reread}
      of="these rules"
      fromTo={fromTo}
      typed={changed && !lacks.length ? JSON.stringify({ document }) : ""}
      send={({ dryRun, reason, tag, key }) => answered(api.PUT("/api/safety/policy", { params: { query: { dry_run: dryRun }, header: { "Idempotency-Key": key } }, body: { tenant, document, ...(tag ? { base: Number(tag) } : {}), reason } }))}
      preview={(would) => <Would change={would.change} />}
    >
      {(errorOf) => (
        <div className="policy" onBlur={() => setTried(true)}>
          <p className="note">{madeBy(began)} They hold beside the platform's, and the stricter of two goes before. What runs keeps the rules that it began with.</p>
          {rules.map((rule) => <RuleFields key={rule.id} rule={rule} floor={floor} lack={tried || rule.name ? lackOf(rule) : ""} set={(part) => set(rule.id, part)} drop={() => setRules(rules.filter((each) => each.id !== rule.id))} />)}
          {!rules.length && <p className="soft">No rule of its own.</p>}
          {errorOf("document") && <p role="alert" className="edit-refused">{errorOf("document")}</p>}
          <p className="policy-add"><span className="soft">Add</span>{KINDS.map(([kind, word]) => <Button key={kind} variant="default" aria-label={`Add ${word}`} onClick={() => add(kind)}>{word.charAt(0).toUpperCase() + word.slice(1)}</Button>)}</p>
        </div>
      )}
    </EditDialog>
  );
}

/** From version 3 to version 4. */
const fromTo: FromTo = (before, after) => `from ${before["version"] ? `version ${before["version"]}` : "no rules"} to version ${after["version"]}`;

function madeBy({ version, state }: Shown): string {
  if (!version || state !== "set") return "It has no rules of its own yet.";
  return `Version ${version.version}, by ${version.author}${version.created ? ` ${ago(version.created)}` : ""}${version.reason ? `: “${version.reason}”` : ""}.`;
}

const STRENGTH = ["", "flag", "redact", "block"];

/** What a rule may do: nothing weaker than the floor does. */
function actions(atLeast: Action | undefined) {
  const from = Math.max(0, STRENGTH.indexOf(atLeast ?? ""));
  const least = from ? [{ value: "", label: `as Parley: ${atLeast}` }] : [{ value: "", label: "nothing" }];
  return [...least, ...STRENGTH.slice(from ? from + 1 : 1).map((each) => ({ value: each, label: each }))];
}

const withOwn = (data: { value: string; label: string }[], own: Action) => (own && !data.some((each) => each.value === own) ? [...data, { value: own, label: own }] : data);

function RuleFields({ rule, floor, lack, set, drop }: { rule: Rule; floor: Floor; lack: string; set: (part: Partial<Rule>) => void; drop: () => void }) {
  const kind = KINDS.find(([each]) => each === rule.kind)?.[1] ?? "";
  const named = rule.name || `new ${kind}`;
  const act = (side: "action" | "prompt", label: string) => (
    <NativeSelect aria-label={`${label} of ${named}`} label={label} value={rule[side] ?? ""} onChange={(event) => set({ [side]: (event.currentTarget.value || null) as Action })} data={withOwn(actions(rule.kind === "detectors" ? floor.get(rule.name)?.[side] : null), rule[side])} />
  );
  return (
    <fieldset className="policy-rule">
      <legend className="unseen">{named}</legend>
      <div className="policy-row">
        {rule.kind === "detectors"
          ? <NativeSelect label="Detector" value={rule.name} onChange={(event) => set({ name: event.currentTarget.value })} data={["", ...new Set([...DETECTORS, ...(rule.name ? [rule.name] : [])])]} />
          : <TextInput label={rule.kind === "words" ? "Words, called" : "Pattern, called"} value={rule.name} onChange={(event) => set({ name: event.currentTarget.value })} maxLength={64} autoComplete="off" spellCheck={false} />}
        {act("action", "In answers")}
        {act("prompt", "In prompts")}
        <button type="button" className="policy-drop" aria-label={`Remove ${named}`} onClick={drop}><X size={16} aria-hidden /></button>
      </div>
      {rule.kind === "patterns" && <TextInput aria-label={`Pattern of ${named}`} placeholder="ACME-[0-9]{6}" value={rule.text} onChange={(event) => set({ text: event.currentTarget.value })} className="policy-code" autoComplete="off" spellCheck={false} />}
      {rule.kind === "words" && <Textarea aria-label={`Words of ${named}`} placeholder="One word or phrase a line" value={rule.text} onChange={(event) => set({ text: event.currentTarget.value })} rows={3} autosize={false} spellCheck={false} />}
      {lack && <p className="note warn">{lack}</p>}
    </fieldset>
  );
}

const SIDES: Record<string, string> = { action: "answers", prompt: "prompts" };

function Would({ change }: { change: Change }) {
  const lost = [
    ...change.losses.lost.map((each) => `${each.name} is no longer looked for in ${SIDES[each.of]}${each.words ? ` (${each.words} words)` : ""}`),
    ...change.losses.weakened.map((each) => `${each.name} in ${SIDES[each.of]}: ${each.was} becomes ${each.becomes}`),
  ];
  const idle = change.own.map((each) => `${each.name} in ${SIDES[each.of]} changes nothing: the ${each.scope} says ${each.holds}`);
  return (
    <div className="policy-would">
      {lost.length > 0 && <p className="edit-warning"><b>Less is looked for.</b> {lost.map((each) => sentence(each)).join(" ")}</p>}
      {idle.length > 0 && <p className="note">{idle.map((each) => sentence(each)).join(" ")}</p>}
      {change.diff.length > 0 && <pre aria-label="What changes" tabIndex={0}>{change.diff.map((line, index) => <span key={index} className={line.startsWith("+") ? "added" : line.startsWith("-") ? "removed" : ""}>{`${line}\n`}</span>)}</pre>}
    </div>
  );
}
