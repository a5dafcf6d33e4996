// What can be done with a version: used in pools, gone back from, removed. Each says first what it would do.

import { Menu, NativeSelect, TextInput } from "@mantine/core";
import { Ellipsis } from "lucide-react";
import { useState } from "react";
import { api, answered, type Schemas } from "../../../shared/api";
import { EditDialog, terms, type ErrorOf, type How } from "../../../shared/components/edit-dialog";
import { Facts, type Fact } from "../../../shared/components/facts";
import { Told } from "../../../shared/components/told";
import { useSession } from "../../../shared/session";
import { sentence } from "../../../shared/words";
import { becomesOf, type Version } from "./words";

type Change = "use" | "rollback" | "remove";
type Of = { version: Version; pools: readonly string[]; onClose: () => void };
const WORDS: Record<Change, string> = { use: "Use in…", rollback: "Roll back…", remove: "Remove…" };

/** `pools`: of its model that are active; `back`: of these, those that have a version before, or one under way. */
export function VersionMenu({ version, pools, back }: { version: Version; pools: readonly string[]; back: readonly string[] }) {
  const { may } = useSession();
  const [change, setChange] = useState<Change | "">("");
  const close = () => setChange("");
  const mine = back.filter((pool) => version.pools.includes(pool) || version.next_in.includes(pool));
  const fits: Record<Change, boolean> = { use: pools.some((pool) => !version.pools.includes(pool)) || version.next_in.length > 0, rollback: mine.length > 0, remove: !version.pools.length && !version.next_in.length };
  const able = (["use", "rollback", "remove"] as const).filter((each) => may(`models.${each}`) && fits[each]);
  if (!able.length) return null;
  return (
    <>
      <Menu position="bottom-end" transitionProps={{ duration: 0 }} withinPortal={false} width={150}>
        <Menu.Target><button type="button" className="version-menu" aria-label={`What can be done with ${version.name} ${version.version}`}><Ellipsis size={16} aria-hidden /></button></Menu.Target>
        <Menu.Dropdown>{able.map((each) => <Menu.Item key={each} onClick={() => setChange(each)}>{WORDS[each]}</Menu.Item>)}</Menu.Dropdown>
      </Menu>
      {change === "use" && <ChangeVersion title={`Use ${version.name} ${version.version}`} save="Use it" to={version.version} version={version} pools={pools} onClose={close} />}
      {change === "rollback" && <ChangeVersion title={`Roll ${version.name} back`} save="Roll back" version={version} pools={mine} onClose={close} />}
      {change === "remove" && <Remove version={version} pools={pools} onClose={close} />}
    </>
  );
}

function ChangeVersion({ title, save, to, version: { name: model }, pools, onClose }: Of & { title: string; save: string; to?: string }) {
  const first = pools.length === 1 ? (pools[0] ?? "") : "";
  const [fields, setFields] = useState({ pool: first, cut_off: "", accept_gap: "" });
  const set = (changed: Partial<typeof fields>) => setFields({ ...fields, ...changed });
  const body = { pool: fields.pool || null, cut_off: fields.cut_off.trim() || null, accept_gap: fields.accept_gap === "yes" };
  const send = (how: How) => {
    const params = { path: { model }, ...terms(how) };
    if (to === undefined) return answered(api.POST("/api/models/{model}/rollback", { params, body: { ...body, reason: how.reason } }));
    return answered(api.POST("/api/models/{model}/use", { params, body: { ...body, version: to, reason: how.reason } }));
  };
  const choices = [...(pools.length === 1 ? [] : [{ value: "", label: to === undefined ? "all that can go back" : `all ${pools.length} that serve ${model}` }]), ...pools.map((pool) => ({ value: pool, label: pool }))];
  return (
    <EditDialog title={title} save={save} onClose={onClose} typed={JSON.stringify(body)} send={send} preview={(would) => <Becomes would={would} />}>
      {(errorOf) => (
        <>
          <NativeSelect label="Pools" value={fields.pool} onChange={(event) => set({ pool: event.currentTarget.value })} data={choices} error={errorOf("pool")} data-autofocus />
          <NativeSelect label="Until workers of it are ready" description="A gap is needed where there is no room for workers of both." value={fields.accept_gap} onChange={(event) => set({ accept_gap: event.currentTarget.value })} data={[{ value: "", label: "the version in use serves" }, { value: "yes", label: "nobody may serve, where there is no room" }]} error={errorOf("accept_gap")?.replace("with --accept-gap", "here")} />
          <TextInput label="Cut-off" description="So long after the switch what still needs the old version is ended, like 30m. Empty: it runs to its end." value={fields.cut_off} onChange={(event) => set({ cut_off: event.currentTarget.value })} error={errorOf("cut_off")} autoComplete="off" spellCheck={false} />
        </>
      )}
    </EditDialog>
  );
}

function Becomes({ would }: { would: Schemas["VersionsChanged"] }) {
  const facts = would.pools.map((pool) => (
    <div key={pool.pool}>
      <p><b>{pool.pool}</b> {becomesOf(pool)}.</p>
      {pool.next && pool.differs.length > 0 && <p className="soft">{`Another ${pool.differs.join(", another ")} than ${pool.before}.`}</p>}
      {pool.note && <p className="warn"><Told text={sentence(pool.note)} /></p>}
    </div>
  ));
  return <div role="group" className="version-becomes" aria-label="What happens">{facts}</div>;
}

function Remove({ version, onClose }: Of) {
  const [way, setWay] = useState("");
  const { name: model, version: named } = version;
  const body = { give_up_rollback: way === "yes" };
  const happens: Fact[] = [["Its name", "nobody can use it any more, until it is added again"], ["Its files", "are deleted on this machine, below PARLEY_HOME; a linked folder stays"], ["Its books", "stay"]];
  return (
    <EditDialog
      title={`Remove ${model} ${named}`}
      save="Remove version"
      harmful
      confirm={named}
      onClose={onClose}
      typed={JSON.stringify(body)}
      send={(how) => answered(api.DELETE("/api/models/{model}/versions/{version}", { params: { path: { model, version: named }, ...terms(how) }, body: { ...body, reason: how.reason } }))}
      preview={() => <Facts boxed label="What happens" facts={happens} />}
      {...(version.earlier_in.length ? { children: (errorOf: ErrorOf) => <NativeSelect label="Way back" description={`${version.earlier_in.join(", ")} could go back to it.`} value={way} onChange={(event) => setWay(event.currentTarget.value)} data={[{ value: "", label: "keep it: do not remove" }, { value: "yes", label: "give it up" }]} error={errorOf("give_up_rollback")} data-autofocus /> } : {})}
    />
  );
}
