// What a pool should be beside what it is, and its changes: resized, drained, taken back, deleted. `parley fleet`, where
// it runs, makes it so.

import { Button, Menu, TextInput } from "@mantine/core";
import { Link } from "@tanstack/react-router";
import { ChevronDown } from "lucide-react";
import { useState } from "react";
import { EditDialog, terms } from "../../../shared/components/edit-dialog";
import { Facts, type Fact } from "../../../shared/components/facts";
import { Section } from "../../../shared/components/section";
import { StateShape } from "../../../shared/components/state";
import { Told } from "../../../shared/components/told";
import { api, answered, answeredWithTag } from "../../../shared/api";
import { ago, count, moment, percent } from "../../../shared/format";
import { useSession } from "../../../shared/session";
import { underWay } from "../models/words";
import { DeletePool } from "./delete";
import { lastingSince, observedOf, resizedMeanwhile, type Desired, type Pool } from "./words";

type Change = "drain" | "edit" | "delete";
const WORDS: Record<Change, string> = { drain: "Drain", edit: "Take back", delete: "Delete" };
export const MADE_SO = "parley fleet, where it runs, makes it so within seconds.";

/** The buttons that change what a pool should be. */
export function PoolChanges({ desired }: { desired: Desired }) {
  const { may } = useSession();
  const [change, setChange] = useState<Change | "resize" | "">("");
  const close = () => setChange("");
  const fits: Record<Change, boolean> = { drain: desired.state === "active", edit: desired.state === "draining", delete: true };
  const able = (["drain", "edit", "delete"] as const).filter((each) => may(`pools.${each}`) && fits[each]);
  return (
    <>
      {may("pools.resize") && <Button variant="default" onClick={() => setChange("resize")}>Resize…</Button>}
      {able.length > 0 && (
        <Menu position="bottom-end" transitionProps={{ duration: 0 }} withinPortal={false} width={150}>
          <Menu.Target><Button variant="default" rightSection={<ChevronDown size={14} aria-hidden />}>More</Button></Menu.Target>
          <Menu.Dropdown>{able.map((each) => <Menu.Item key={each} onClick={() => setChange(each)}>{WORDS[each]}…</Menu.Item>)}</Menu.Dropdown>
        </Menu>
      )}
      {change === "resize" && <Resize desired={desired} onClose={close} />}
      {change === "drain" && <Drain desired={desired} onClose={close} />}
      {change === "edit" && <TakeBack desired={desired} onClose={close} />}
      {change === "delete" && <DeletePool desired={desired} onClose={close} />}
    </>
  );
}

/** What a pool should be, beside what it is. */
export function DesiredPool({ pool, desired }: { pool: Pool; desired: Desired }) {
  const { state, number, why, since } = observedOf(pool, desired);
  const reached = since && (state === "well" ? `, reached ${ago(since)}` : `, not reached for ${lastingSince(since)}`);
  const facts: Fact[] = [
    ["Workers", <span key="state" className="state"><StateShape state={state} /> {number}</span>],
    ...(state === "well" ? [] : [["Why", <Told key="why" text={why} />] satisfies Fact]),
    ...underWay([desired]).map((row): Fact => ["Version", <div key="version"><p>{row.told}</p><p><Link to="/models">All models</Link></p></div>]),
    ["Running", `${count(pool.running)} of ${count(pool.slots)} slots`],
    ["KV in use", pool.kv === null ? "no worker says" : `${percent(pool.kv)} %`],
    ...factsOf(desired).filter(([name]) => name !== "Workers"),
    ["Generation", <span key="generation" title={since ? moment(since) : ""}>{count(desired.generation)}{reached}</span>],
  ];
  return <Section title="Desired and observed"><Facts label="Desired and observed" facts={facts} /></Section>;
}

function Resize({ desired, onClose }: { desired: Desired; onClose: () => void }) {
  const [text, setText] = useState(String(desired.workers));
  const [read] = useState(() => readOf(desired.pool));
  const workers = wholeOf(text);
  const path = { pool: desired.pool };
  return (
    <EditDialog
      title={`Resize ${desired.pool}`}
      save="Save"
      note={MADE_SO}
      onClose={onClose}
      reread={() => readOf(desired.pool)}
      overwrites={resizedMeanwhile}
      typed={workers === null || workers === desired.workers ? "" : JSON.stringify({ workers })}
      send={async (how) => answered(api.PUT("/api/pools/{pool}/workers", { params: { path, ...terms({ ...how, tag: how.dryRun ? undefined : (how.tag ?? (await read)) }) }, body: { workers: workers ?? 0, reason: how.reason } }))}
      preview={(would) => <Facts boxed label="What changes" facts={[["Workers", `${count(desired.workers)} → ${count(would.workers)}`], ["Of fewer", "the last ones drain: what they have goes on elsewhere"]]} />}
    >
      {(errorOf) => <TextInput label="Desired workers" description={`Now ${count(desired.workers)}.`} inputMode="numeric" value={text} onChange={(event) => setText(event.currentTarget.value)} error={workers === null ? "A whole number, like 2." : errorOf("workers")} data-autofocus />}
    </EditDialog>
  );
}

function Drain({ desired: { pool }, onClose }: { desired: Desired; onClose: () => void }) {
  return (
    <EditDialog
      title={`Drain ${pool}`}
      save="Drain pool"
      onClose={onClose}
      typed=""
      send={(how) => answered(api.POST("/api/pools/{pool}/drain", { params: { path: { pool }, ...terms(how) }, body: { reason: how.reason } }))}
      preview={() => <Facts boxed label="What happens" facts={[["New requests", "go elsewhere, or are refused where nothing else serves them"], ["What it has", "ends there"]]} />}
    />
  );
}

function TakeBack({ desired: { pool }, onClose }: { desired: Desired; onClose: () => void }) {
  return (
    <EditDialog
      title={`Take ${pool} back`}
      save="Take back"
      onClose={onClose}
      typed=""
      send={(how) => answered(api.PATCH("/api/pools/{pool}", { params: { path: { pool }, ...terms(how) }, body: { state: "active", reason: how.reason } }))}
      preview={(would) => <Facts boxed label="What happens" facts={[["New requests", "come here again"], ["Workers", `${count(would.workers)}, as before`]]} />}
    />
  );
}

/** The ETag of what a pool should be now. */
export async function readOf(pool: string): Promise<string | undefined> {
  return (await answeredWithTag(api.GET("/api/pools/{pool}", { params: { path: { pool } } }))).tag;
}

export function factsOf(desired: Desired): Fact[] {
  const labels = Object.entries(desired.labels).map(([name, value]) => `${name}=${value}`).join(", ");
  const reserves = [[desired.reserve_interactive_tokens, "interactive"], [desired.reserve_standard_tokens, "standard"]] as const;
  const reserve = reserves.filter(([tokens]) => tokens).map(([tokens, name]) => `${count(tokens)} KV tokens for ${name}`).join(", ");
  return [
    ["Model", `${desired.model} ${desired.version}`],
    ["Workers", count(desired.workers)],
    ["Whose", desired.tenant ?? "shared"],
    ["State", desired.state],
    ...(desired.let_in.length ? [["Let in", desired.let_in.join(", ")] satisfies Fact] : []),
    ...(labels ? [["Nodes", labels] satisfies Fact] : []),
    ...(reserve ? [["Reserve", reserve] satisfies Fact] : []),
  ];
}

/** A whole number, null where it is none. */
export function wholeOf(text: string): number | null {
  return /^\d{1,4}$/.test(text.trim()) ? Number(text) : null;
}
