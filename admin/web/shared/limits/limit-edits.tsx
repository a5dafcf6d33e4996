// Edits of a tenant's limits: another amount, a new one, and ending one.

import { NativeSelect, TextInput } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { useState } from "react";
import type { FromTo } from "../components/edit-conflict";
import { EditDialog, terms } from "../components/edit-dialog";
import { Facts } from "../components/facts";
import { api, answered, answeredWithTag, everyItem, type Schemas } from "../api";
import { count, NOBODY_KNOWS } from "../format";
import { LimitLastMonth } from "./last-month";
import { dimensionOf, type Limit } from "./limit-words";

const whole = (text: string) => (/^\d{1,15}$/.test(text.replaceAll(/[ ,]/g, "")) ? Number(text.replaceAll(/[ ,]/g, "")) : null);

export function EditLimit({ tenant, limit, onClose }: { tenant: string; limit: Limit; onClose: () => void }) {
  const [began, setBegan] = useState(limit); // as it was when the dialog opened, or was read again
  const [units, setUnits] = useState(String(began.limit));
  const [mode, setMode] = useState<Limit["mode"]>(began.mode);
  const path = { tenant, limit_id: began.limit_id };
  const { data: known } = useQuery({ queryKey: ["limit as it was", limit.limit_id], queryFn: () => readLimit(tenant, limit.limit_id), staleTime: Infinity, gcTime: 0 });
  const reread = async () => {
    const now = await successorOf(tenant, began);
    setBegan(now);
    const fill = () => {
      setUnits(String(now.limit));
      setMode(now.mode);
    };
    return { tag: (await readLimit(tenant, now.limit_id)).tag, take: { label: `Take ${count(now.limit)}`, fill } };
  };
  const [name, unit] = dimensionOf(began.dimension);
  const given = whole(units);
  const changed = given !== began.limit || mode !== began.mode;
  if (!known) return null;
  return (
    <EditDialog
      title={`${name} ${unit}`}
      save="Save"
      onClose={onClose}
      tag={known.tag}
      reread={reread}
      of="this limit"
      fromTo={fromTo}
      typed={changed && given !== null ? JSON.stringify({ limit: given, mode }) : ""}
      send={(how) => answered(api.PATCH("/api/tenants/{tenant}/limits/{limit_id}", { params: { path, ...terms(how) }, body: { limit: given ?? 0, mode, reason: how.reason } }))}
      preview={(would) => (
        <section className="edit-would" aria-label="What this does">
          <h3>What this does</h3>
          <Facts boxed label="What changes" facts={changes(began, would)} />
          <LimitLastMonth last={would.last_month} />
        </section>
      )}
    >
      {(errorOf) => (
        <div className="edit-pair">
          <TextInput label="Limit" description={`Now ${count(began.limit)}. 0: nothing passes.`} inputMode="numeric" value={units} onChange={(event) => setUnits(event.currentTarget.value)} error={given === null ? "A whole number, like 1200." : errorOf("limit")} data-autofocus />
          <NativeSelect label="Mode" description="Shadow refuses nothing." value={mode} onChange={(event) => setMode(event.currentTarget.value as typeof mode)} data={["enforce", "shadow"]} error={errorOf("mode")} />
        </div>
      )}
    </EditDialog>
  );
}

/** From 8 to 12, and the mode where it is another one. */
const fromTo: FromTo = (before, after) => {
  const limits = [before, after].map((row) => (typeof row["limit_units"] === "number" ? row["limit_units"] : null));
  const modes = before["mode"] === after["mode"] ? "" : `, ${String(before["mode"])} → ${String(after["mode"])}`;
  return limits.includes(null) || limits[0] === limits[1] ? "" : `from ${count(limits[0])} to ${count(limits[1])}${modes}`;
};

const readLimit = (tenant: string, id: string) => answeredWithTag(api.GET("/api/tenants/{tenant}/limits/{limit_id}", { params: { path: { tenant, limit_id: id } } }));

/** The limit that counts the same now: an edited one has a new id. */
async function successorOf(tenant: string, old: Limit): Promise<Limit> {
  const items = await everyItem((query) => answered(api.GET("/api/tenants/{tenant}/limits", { params: { path: { tenant }, query } })));
  const same = (each: Limit) => each.scope === old.scope && each.of === old.of && each.dimension === old.dimension && each.models === old.models;
  return items.find(same) ?? old;
}

function changes(now: Limit, would: Schemas["LimitFor"]): [string, string][] {
  const use = now.used === null ? NOBODY_KNOWS : `${count(now.used)} used now`;
  const rows: [string, string][] = [["Limit", `${count(now.limit)} → ${count(would.limit)}`], ["Use", use]];
  if (now.mode !== would.mode) rows.push(["Mode", `${now.mode} → ${would.mode}`]);
  if (now.used !== null && would.mode === "enforce" && now.used >= would.limit) rows.push(["At once", "further requests wait or are refused"]);
  return rows;
}

const DIMENSIONS = ["concurrency", "requests_per_minute", "input_tokens_per_minute", "output_tokens_per_minute", "tokens_per_minute", "answer_tokens"] as const;
const SCOPES = ["tenant", "project", "user", "key", "model"] as const;

export function SetLimit({ tenant, onClose }: { tenant: string; onClose: () => void }) {
  const [dimension, setDimension] = useState<(typeof DIMENSIONS)[number]>("requests_per_minute");
  const [scope, setScope] = useState<(typeof SCOPES)[number]>("tenant");
  const [whose, setWhose] = useState("");
  const [units, setUnits] = useState("");
  const given = whole(units);
  const of = scope === "tenant" ? "" : whose.trim();
  return (
    <EditDialog
      title={`Set a limit of ${tenant}`}
      save="Set limit"
      onClose={onClose}
      typed={given === null ? "" : JSON.stringify({ dimension, scope, of, limit: given })}
      send={(how) => answered(api.POST("/api/tenants/{tenant}/limits", { params: { path: { tenant }, ...terms(how) }, body: { scope, of, dimension, limit: given ?? 0, reason: how.reason } }))}
      preview={(would) => (
        <section className="edit-would" aria-label="What this does">
          <h3>What this does</h3>
          <p className="soft">{would.note ?? "It counts within a second, in place of one that counts the same."}</p>
          <LimitLastMonth last={would.last_month} />
        </section>
      )}
    >
      {(errorOf) => (
        <>
          <NativeSelect label="What" value={dimension} onChange={(event) => setDimension(event.currentTarget.value as typeof dimension)} data={DIMENSIONS.map((each) => ({ value: each, label: dimensionOf(each).join(" ") }))} error={errorOf("dimension")} />
          <div className="edit-pair">
            <NativeSelect label="For" value={scope} onChange={(event) => setScope(event.currentTarget.value as typeof scope)} data={SCOPES.map((each) => ({ value: each, label: each === "tenant" ? "the whole tenant" : `a ${each}, or each` }))} error={errorOf("scope")} />
            {scope !== "tenant" && <TextInput label={`Which ${scope}`} placeholder="each of them" value={whose} onChange={(event) => setWhose(event.currentTarget.value)} error={errorOf("of")} autoComplete="off" />}
            <TextInput label="Limit" inputMode="numeric" value={units} onChange={(event) => setUnits(event.currentTarget.value)} error={units && given === null ? "A whole number, like 1200." : errorOf("limit")} data-autofocus />
          </div>
        </>
      )}
    </EditDialog>
  );
}

export function EndLimit({ tenant, limit, onClose }: { tenant: string; limit: Limit; onClose: () => void }) {
  const [name, unit] = dimensionOf(limit.dimension);
  return (
    <EditDialog
      title={`End ${`${name} ${unit}`.trim().toLowerCase()}`}
      save="End limit"
      harmful
      onClose={onClose}
      typed=""
      send={(how) => answered(api.POST("/api/tenants/{tenant}/limits/{limit_id}/end", { params: { path: { tenant, limit_id: limit.limit_id }, ...terms(how) }, body: { reason: how.reason } }))}
      preview={() => <p>The limit of {count(limit.limit)} counts no more, within a second. One of its plan that counts the same holds again.</p>}
    />
  );
}
