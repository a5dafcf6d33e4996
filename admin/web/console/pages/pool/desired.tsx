// What a pool should be, and its changes: created, resized, drained, deleted. `parley fleet`, where it runs, makes it so.

import { Button, Menu, TextInput } from "@mantine/core";
import { useNavigate } from "@tanstack/react-router";
import { ChevronDown } from "lucide-react";
import { useState } from "react";
import { EditDialog, terms, type ErrorOf } from "../../../shared/components/edit-dialog";
import { Facts, type Fact } from "../../../shared/components/facts";
import { Section } from "../../../shared/components/section";
import { api, answered, answeredWithTag } from "../../../shared/api";
import { count } from "../../../shared/format";
import { useSession } from "../../../shared/session";
import type { Desired } from "./words";

type Change = "resize" | "drain" | "delete" | "";
const MADE_SO = "parley fleet, where it runs, makes it so within seconds.";

/** A new pool, whose page opens when it is made. */
export function CreatePool({ onClose }: { onClose: () => void }) {
  const navigate = useNavigate();
  const [texts, setTexts] = useState({ pool: "", model: "", workers: "1", tenant: "" });
  const [workers, labels] = [wholeOf(texts.workers), []];
  const body = { pool: texts.pool.trim(), model: texts.model.trim(), workers: workers ?? 0, tenant: texts.tenant.trim() || null, labels };
  const field = (name: keyof typeof texts, label: string, description: string, errorOf: ErrorOf, more = {}) => (
    <TextInput label={label} description={description} value={texts[name]} onChange={(event) => setTexts({ ...texts, [name]: event.currentTarget.value })} error={errorOf(name)} autoComplete="off" spellCheck={false} {...more} />
  );
  return (
    <EditDialog
      title="Create a pool"
      save="Create pool"
      note={MADE_SO}
      onClose={onClose}
      typed={body.pool && body.model && workers !== null ? JSON.stringify(body) : ""}
      send={(how) => answered(api.POST("/api/pools", { params: terms(how), body: { ...body, reason: how.reason } }))}
      preview={(would) => <Facts boxed label="What it will be" facts={factsOf(would)} />}
      saved={(made) => void navigate({ to: "/pools/$pool", params: { pool: made.pool } })}
    >
      {(errorOf) => (
        <>
          {field("pool", "Name", "Like eu-1.", errorOf, { "data-autofocus": true })}
          {field("model", "Model", "The model that its workers run, in its newest version.", errorOf)}
          {field("workers", "Workers", "How many should run.", errorOf, { inputMode: "numeric" })}
          {field("tenant", "Tenant", "Who pays and is served there alone. Empty: it is shared.", errorOf)}
        </>
      )}
    </EditDialog>
  );
}

/** What a pool should be, beside what it is. */
export function DesiredPool({ desired }: { desired: Desired }) {
  const { may } = useSession();
  const [change, setChange] = useState<Change>("");
  const close = () => setChange("");
  const able = (["resize", "drain", "delete"] as const).filter((each) => may(`pools.${each}`) && !(each === "drain" && desired.state === "draining"));
  const menu = able.length > 0 && (
    <Menu position="bottom-end" transitionProps={{ duration: 0 }} withinPortal={false} width={150}>
      <Menu.Target><Button variant="default" rightSection={<ChevronDown size={14} aria-hidden />}>Change</Button></Menu.Target>
      <Menu.Dropdown>{able.map((each) => <Menu.Item key={each} onClick={() => setChange(each)}>{WORDS[each]}…</Menu.Item>)}</Menu.Dropdown>
    </Menu>
  );
  return (
    <Section title="Desired" note={`generation ${count(desired.generation)}`} end={menu}>
      <Facts label="Desired" facts={factsOf(desired)} />
      {change === "resize" && <Resize desired={desired} onClose={close} />}
      {change === "drain" && <Drain desired={desired} onClose={close} />}
      {change === "delete" && <Delete desired={desired} onClose={close} />}
    </Section>
  );
}

const WORDS = { resize: "Resize", drain: "Drain", delete: "Delete" } as const;

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
      typed={workers === null || workers === desired.workers ? "" : JSON.stringify({ workers })}
      send={async (how) => answered(api.PUT("/api/pools/{pool}/workers", { params: { path, ...terms({ ...how, tag: how.tag ?? (await read) }) }, body: { workers: workers ?? 0, reason: how.reason } }))}
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

function Delete({ desired: { pool }, onClose }: { desired: Desired; onClose: () => void }) {
  const navigate = useNavigate();
  return (
    <EditDialog
      title={`Delete ${pool}`}
      save="Delete pool"
      harmful
      confirm={pool}
      note="Drain it first: one with requests or workers stays."
      onClose={onClose}
      typed=""
      send={(how) => answered(api.DELETE("/api/pools/{pool}", { params: { path: { pool }, ...terms(how) }, body: { reason: how.reason } }))}
      saved={() => void navigate({ to: "/pools" })}
    />
  );
}

/** The ETag of what a pool should be now. */
async function readOf(pool: string): Promise<string | undefined> {
  return (await answeredWithTag(api.GET("/api/pools/{pool}", { params: { path: { pool } } }))).tag;
}

function factsOf(desired: Desired): Fact[] {
  const labels = Object.entries(desired.labels).map(([name, value]) => `${name}=${value}`).join(", ");
  return [
    ["Model", `${desired.model} ${desired.version}`],
    ["Workers", count(desired.workers)],
    ["Whose", desired.tenant ?? "shared"],
    ["State", desired.state],
    ...(desired.let_in.length ? [["Let in", desired.let_in.join(", ")] satisfies Fact] : []),
    ...(labels ? [["Nodes", labels] satisfies Fact] : []),
  ];
}

/** A whole number, null where it is none. */
function wholeOf(text: string): number | null {
  return /^\d{1,4}$/.test(text.trim()) ? Number(text) : null;
}
