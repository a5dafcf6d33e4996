// Models: in which versions, where each serves, what is under way and what it waits for; used, gone back from, removed.

import { Link } from "@tanstack/react-router";
import { api, answered, everyItem } from "../../../shared/api";
import { DataTable, type Column } from "../../../shared/components/data-table";
import { Section } from "../../../shared/components/section";
import { Sentence } from "../../../shared/components/sentence";
import { StateShape } from "../../../shared/components/state";
import { Told } from "../../../shared/components/told";
import { count, moment, NOBODY_KNOWS } from "../../../shared/format";
import { useFreshness } from "../../../shared/freshness";
import { useLive } from "../../../shared/live";
import { sentence } from "../../../shared/words";
import { useDesired } from "../pool/asked";
import type { Desired } from "../pool/words";
import { VersionMenu } from "./change";
import { byModel, detailOf, oldText, poolsOf, provedOf, sentenceOf, stateOf, underWay, type UnderWay, type Version } from "./words";
import "../tenants.css";
import "./models.css";

const MIB = 1 << 20;

export function ModelsPage() {
  const { data, error, dataUpdatedAt } = useLive(["models"], () => everyItem((query) => answered(api.GET("/api/models", { params: { query } }))));
  const stale = useFreshness(dataUpdatedAt);
  const pools = [...useDesired().values()];
  if (!data) return error ? <Sentence state="unknown" text="Nobody knows the models now." detail={sentence(error.detail)} /> : <Loading />;
  if (!data.length) return <NoModels />;
  const verdict = sentenceOf(data, pools);
  const changes = underWay(pools);
  return (
    <>
      <Sentence state={stale ? "unknown" : verdict.state} text={stale ? `As last known: ${verdict.text}` : verdict.text} detail={detailOf(data)} />
      <div className={stale ? "models stale" : "models"}>
        {changes.length > 0 && <Section title="Under way"><DataTable label="Under way" columns={CHANGES} rows={changes} keyOf={(row) => row.pool} /></Section>}
        {byModel(data).map(([name, versions]) => <div key={name} className="versions"><Section title={name} note={servedBy(name, pools)}><DataTable label={`Versions of ${name}`} columns={columnsOf(pools.filter((pool) => pool.model === name && pool.state === "active"))} rows={versions} keyOf={(each) => each.version} /></Section></div>)}
      </div>
    </>
  );
}

function servedBy(name: string, pools: readonly Desired[]) {
  return pools.some((pool) => pool.model === name) ? "" : <>No pool serves it: <code>parley pools create POOL --model {name}</code></>;
}

const CHANGES: readonly Column<UnderWay>[] = [
  { title: "Pool", cell: (row) => <><Link to="/pools/$pool" params={{ pool: row.pool }}><b>{row.pool}</b></Link> <span className="soft">{row.model}</span></> },
  { title: "Version", cell: (row) => (row.to ? `${row.from} → ${row.to}` : row.from) },
  { title: "Ready", number: true, phone: "end", cell: (row) => <>{count(row.ready)} <span className="soft">/ {count(row.workers)}</span></> },
  { title: "Old", cell: (row) => (row.old.length > 0 ? <div className="version-pools">{row.old.map((each) => <p key={each.version}>{oldText(each).replace("the old ", "")}</p>)}</div> : <span className="soft">nothing</span>) },
  { title: "Waits for", cell: (row) => (row.why ? <Told text={row.why} /> : <span className="soft">nothing</span>) },
];

function columnsOf(pools: readonly Desired[]): Column<Version>[] {
  const names = pools.map((pool) => pool.pool);
  const back = pools.filter((pool) => pool.next_version ?? pool.earlier_version).map((pool) => pool.pool);
  return [
    { title: "Version", cell: (each) => <b>{each.version}</b> },
    { title: "State", phone: "end", cell: (each) => <State version={each} /> },
    { title: "Pools", cell: (each) => <InPools version={each} /> },
    { title: "Size, MiB", number: true, cell: (each) => (each.size_bytes === null ? NOBODY_KNOWS : count(Math.ceil(each.size_bytes / MIB))) },
    { title: "Proved", cell: (each) => <span title={each.proved}>{provedOf(each)}</span> },
    { title: "Added", right: true, narrow: "hide", cell: (each) => <span title={moment(each.added)}>{moment(each.added).slice(0, 10)}</span> },
    { title: "", cell: (each) => <VersionMenu version={each} pools={names} back={back} /> },
  ];
}

function InPools({ version }: { version: Version }) {
  const rows = poolsOf(version);
  if (!rows.length) return <span className="soft">none</span>;
  return <div className="version-pools">{rows.map(({ pool, says }) => <p key={`${pool} ${says}`}><Link to="/pools/$pool" params={{ pool }}>{pool}</Link> <span className="soft">{says}</span></p>)}</div>;
}

function State({ version }: { version: Version }) {
  const { shape, word } = stateOf(version);
  return <span className="state"><StateShape state={shape} /> {word}</span>;
}

function NoModels() {
  return <div className="empty"><h1>No model has been added yet</h1><p>A model is added on a machine that holds its files. No pool uses it before you say so.</p><code>parley models add smollm2</code></div>;
}

function Loading() {
  return <div aria-busy="true" aria-label="Loading" role="status"><span className="skeleton title" /><span className="skeleton rows" /></div>;
}
