// The filters above the list of requests. What is typed counts on Enter, or once the field is left.

import { NativeSelect, SegmentedControl, TextInput } from "@mantine/core";
import { useEffect, useState } from "react";
import type { Problem } from "../api";
import { sentence } from "../words";
import { endWord } from "./words";
import { OUTCOMES, STATES, type ListState, type Outcome, type RequestsFilter } from "./filter";

const PERIODS = [
  { value: "1h", label: "Last hour" },
  { value: "", label: "Last 24 hours" },
  { value: "7d", label: "Last 7 days" },
  { value: "30d", label: "Last 30 days" },
];
const NAMES: Record<ListState, string> = { all: "All", live: "Live", ended: "Ended", refused: "Refused" };

/** Whether a refusal of this field stands beside one of these filters. */
export function beside(field: string | undefined): boolean {
  return ["tenant", "project", "user", "key", "model", "code", "since", "until", "pool"].includes(field ?? "");
}

type Props = {
  filter: RequestsFilter;
  states: readonly ListState[];
  pools: readonly string[];
  /** Of the one tenant whose requests these are, by id; null: they are of all tenants. */
  projects: ReadonlyMap<string, string> | null;
  problem: Problem | null;
  change: (changed: Partial<Record<keyof RequestsFilter, string | undefined>>) => void;
};

export function RequestFilters({ filter, states, pools, projects, problem, change }: Props) {
  const state = filter.state ?? "all";
  const text = (name: "tenant" | "project" | "user" | "key" | "model" | "code" | "since" | "until", label: string) => (
    <TextFilter key={name} label={label} value={filter[name] ?? ""} error={problem?.field === name ? sentence(problem.detail) : ""} set={(value) => change({ [name]: value || undefined })} />
  );
  const error = (name: string) => (problem?.field === name ? { error: sentence(problem.detail) } : {});
  const known = PERIODS.some((each) => each.value === (filter.since ?? "")) && !filter.until;
  const periods = [...PERIODS, { value: "own", label: "From, to…" }];
  const [own, setOwn] = useState(!known);
  const pooled = [...new Set([...pools, ...(filter.pool ? [filter.pool] : [])])];
  return (
    <div className="filters" role="search" aria-label="Filters">
      <SegmentedControl size="xs" aria-label="State" value={state} data={STATES.filter((each) => states.includes(each)).map((each) => ({ value: each, label: NAMES[each] }))} onChange={(value) => change({ state: value === "all" ? undefined : value })} />
      {!projects && text("tenant", "Tenant")}
      {projects && state !== "refused" && <ProjectFilter projects={projects} value={filter.project ?? ""} set={(value) => change({ project: value || undefined })} {...error("project")} />}
      {text("user", "User")}
      {text("key", "Key")}
      {state !== "refused" && text("model", "Model")}
      {state !== "refused" && (!projects || pooled.length > 0) && (
        <NativeSelect size="xs" aria-label="Pool" value={filter.pool ?? ""} data={[{ value: "", label: "Any pool" }, ...pooled]} onChange={(event) => change({ pool: event.currentTarget.value || undefined })} {...error("pool")} />
      )}
      {state === "refused" || filter.code ? text("code", "Code") : null}
      {(state === "all" || state === "ended") && (
        <NativeSelect size="xs" aria-label="Outcome" value={filter.outcome ?? ""} data={[{ value: "", label: "Any outcome" }, ...OUTCOMES.map((each) => ({ value: each, label: outcomeName(each) }))]} onChange={(event) => change({ outcome: event.currentTarget.value || undefined })} />
      )}
      {state !== "live" && (
        <NativeSelect size="xs" aria-label="Time" value={own || !known ? "own" : (filter.since ?? "")} data={periods} onChange={(event) => {
          const value = event.currentTarget.value;
          setOwn(value === "own");
          if (value !== "own") change({ since: value || undefined, until: undefined });
        }} />
      )}
      {state !== "live" && (own || !known) && <>{text("since", "From, as 2h or 2026-10-01T12:00")}{text("until", "To, as 1h or 2026-10-01")}</>}
    </div>
  );
}

type ProjectProps = { projects: ReadonlyMap<string, string>; value: string; set: (value: string) => void; error?: string };

function ProjectFilter({ projects, value, set, ...error }: ProjectProps) {
  const named = [...projects].map(([id, name]) => ({ value: id, label: name })).sort((one, other) => one.label.localeCompare(other.label));
  const strange = value && !projects.has(value) ? [{ value, label: value }] : [];
  return <NativeSelect size="xs" aria-label="Project" value={value} data={[{ value: "", label: "Any project" }, ...named, ...strange]} onChange={(event) => set(event.currentTarget.value)} {...error} />;
}

function outcomeName(outcome: Outcome): string {
  const { word } = endWord(outcome);
  return word === "ended" ? "Ended normally" : word.charAt(0).toUpperCase() + word.slice(1);
}

function TextFilter({ label, value, error, set }: { label: string; value: string; error: string; set: (value: string) => void }) {
  const [typed, setTyped] = useState(value);
  useEffect(() => setTyped(value), [value]);
  const settle = () => typed.trim() !== value && set(typed.trim());
  return (
    <TextInput
      size="xs"
      aria-label={label}
      placeholder={label}
      value={typed}
      error={error}
      maxLength={200}
      spellCheck={false}
      autoComplete="off"
      onChange={(event) => setTyped(event.currentTarget.value)}
      onBlur={settle}
      onKeyDown={(event) => event.key === "Enter" && settle()}
    />
  );
}
