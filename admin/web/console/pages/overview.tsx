// The overview: is all well? A sentence, then what to do, then the numbers that prove it.

import { useState } from "react";
import { Drawer } from "@mantine/core";
import { Link } from "@tanstack/react-router";
import { Command } from "../../shared/components/command";
import { LineChart } from "../../shared/components/line-chart";
import { Section } from "../../shared/components/section";
import { Sentence } from "../../shared/components/sentence";
import { StateShape } from "../../shared/components/state";
import { Strip, type StripItem } from "../../shared/components/strip";
import { WorkerCells } from "../../shared/components/worker-cells";
import { api, answered, type Schemas } from "../../shared/api";
import { clock, count, decimal, lasting, moment, NOBODY_KNOWS, percent } from "../../shared/format";
import { useFreshness } from "../../shared/freshness";
import { useLive } from "../../shared/live";
import { sentence } from "../../shared/words";
import "./overview.css";

type Overview = Schemas["Overview"];
type BookLight = Overview["books"][number];

export function OverviewPage() {
  const { data, error, dataUpdatedAt } = useLive(["overview"], () => answered(api.GET("/api/overview")));
  const stale = useFreshness(dataUpdatedAt);
  if (!data) return error ? <Sentence state="unknown" text="Nobody knows yet." detail={sentence(error.detail)} /> : <Loading />;
  return (
    <>
      <Verdict overview={data} stale={stale} since={dataUpdatedAt} />
      {!stale && <Remedies remedies={data.remedies} />}
      <div className={stale ? "stale" : ""}>
        <Strip items={stripOf(data)} label="Now" />
        <div className="overview">
          <div className="overview-main">
            <Pools pools={data.pools} />
            <Load load={data.load} />
          </div>
          <div className="overview-side">
            <Waiting waiting={data.waiting} />
            <Books books={data.books} />
          </div>
        </div>
        <Happened happened={data.happened} />
      </div>
    </>
  );
}

function Verdict({ overview, stale, since }: { overview: Overview; stale: boolean; since: number }) {
  const { verdict } = overview;
  if (!stale) return <Sentence state={verdict.state} text={verdict.text} detail={verdict.detail} />;
  const was = verdict.state === "well" ? "It was well" : "It was not well";
  const detail = "The numbers below are from then. The console tries again every 2 s; requests and billing do not depend on it.";
  return <Sentence state="unknown" text={`${was} ${lasting((Date.now() - since) / 1000)} ago; no news since ${clock(new Date(since))}.`} detail={detail} />;
}

function Remedies({ remedies }: { remedies: Overview["remedies"] }) {
  if (!remedies.length) return null;
  return (
    <ul className="remedies" aria-label="What helps">
      {remedies.map((remedy) => (
        <li key={remedy.lead}><p><b>{remedy.lead}</b> {remedy.text}</p>{remedy.command && <Command text={remedy.command} />}</li>
      ))}
    </ul>
  );
}

/** The six numbers. */
function stripOf({ strip }: Overview): StripItem[] {
  const { running, output, first_token: first, between_tokens: between, errors, unbilled } = strip;
  return [
    { label: "Running", value: count(running?.value), note: running?.of ? `of ${count(running.of)} slots` : "", series: running?.series ?? [] },
    { label: "Output", value: count(rounded(output?.tokens_per_second)), unit: "tokens/s", note: "this minute", series: output?.series ?? [] },
    { label: "First token, p95", value: decimal(first?.p95), unit: "s", note: `p50 ${decimal(first?.p50)} · p99 ${decimal(first?.p99)}`, series: first?.series ?? [] },
    { label: "Between tokens, p95", value: milliseconds(between?.p95), unit: "ms", note: `p50 ${milliseconds(between?.p50)} · p99 ${milliseconds(between?.p99)}`, series: between?.series ?? [] },
    { label: "Errors", value: percent(errors?.share), unit: "%", note: errors ? `${count(errors.count)} of ${count(errors.of)} in 1 h` : "", series: errors?.series ?? [], bad: (errors?.share ?? 0) > ERRORS_BAD },
    { label: "Not yet billed", value: decimal(unbilled.seconds, 1), unit: "s", note: `${count(unbilled.quarantined)} in quarantine`, series: unbilled.series, bad: (unbilled.quarantined ?? 0) > 0 },
  ];
}

const ERRORS_BAD = 0.01;
const rounded = (value: number | null | undefined) => (value == null ? null : Math.round(value));
const milliseconds = (seconds: number | null | undefined) => (seconds == null ? NOBODY_KNOWS : decimal(seconds * 1000, 0));

function Pools({ pools }: { pools: Overview["pools"] }) {
  if (!pools.length)
    return <Section title="Workers"><div className="empty"><h3>No worker has reported yet</h3><p>A supervisor starts workers of a model. On one machine `parley up` starts one.</p><code>parley supervisor --workers 1</code></div></Section>;
  return (
    <Section title="Workers" note="fill: KV in use · number: age of its step, ms">
      <table className="table pools">
        <thead><tr><th scope="col">Pool</th><th scope="col">Workers</th><th scope="col" className="number">Running</th><th scope="col" className="number">KV, %</th><th scope="col" className="number">Waiting</th></tr></thead>
        <tbody>
          {pools.map((pool) => (
            <tr key={pool.pool}>
              <td><Link to="/pools/$pool" params={{ pool: pool.pool }}><b>{pool.pool}</b></Link><p className="note">{pool.shared ? "shared" : `for ${pool.tenants.join(", ")}`}{pool.model && ` · ${pool.model}`}</p></td>
              <td className="cells-cell"><WorkerCells workers={pool.workers} pool={pool.pool} /></td>
              <td className="number" data-label="Running">{count(pool.running)} <span className="soft">/ {count(pool.slots)}</span></td>
              <td className="number" data-label="KV, %">{pool.kv === null ? NOBODY_KNOWS : decimal(pool.kv * 100, 0)}</td>
              <td className={pool.waiting > 0 && pool.running >= (pool.slots ?? Infinity) ? "number bad" : "number"} data-label="Waiting">{count(pool.waiting)}</td>
            </tr>
          ))}
        </tbody>
      </table>
    </Section>
  );
}

function Load({ load }: { load: Overview["load"] }) {
  if (!load || load.minutes.length < 2) return <Section title="Load"><p className="soft">The first minutes are not over yet.</p></Section>;
  const lines = [
    { name: "Running", values: load.running, colour: "var(--series-1)", filled: true },
    { name: "Waiting", values: load.waiting, colour: "var(--series-2)" },
    { name: "Slots", values: load.slots, colour: "var(--series-4)", dashed: true },
  ];
  return <Section title="Load" note="requests, last hour"><LineChart times={load.minutes} lines={lines} label="Load of the last hour" /></Section>;
}

function Waiting({ waiting }: { waiting: Overview["waiting"] }) {
  return (
    <Section title="Waiting">
      <table className="table">
        <thead><tr><th scope="col">Class</th><th scope="col" className="number">Waiting</th><th scope="col" className="number">Oldest, s</th><th scope="col" className="number">Next, s</th></tr></thead>
        <tbody>
          {waiting.map((each) => (
            <tr key={each.class}><td>{each.class}</td><td className="number">{count(each.waiting)}</td><td className="number">{decimal(each.oldest_seconds, 1)}</td><td className="number">{decimal(each.next_seconds, 1)}</td></tr>
          ))}
        </tbody>
      </table>
    </Section>
  );
}

const LIGHTS = { equal: "well", differs: "bad", unknown: "unknown" } as const;

function Books({ books }: { books: readonly BookLight[] }) {
  const [opened, setOpened] = useState<BookLight | null>(null);
  return (
    <Section title="Books" note="difference, age of the check">
      <ul className="lights">
        {books.map((light) => (
          <li key={light.check}>
            <button type="button" className={light.state === "unknown" ? "light soft" : "light"} onClick={() => setOpened(light)}>
              <StateShape state={LIGHTS[light.state]} label={light.state} /> <span>{light.title}</span>
              <span className={light.state === "unknown" ? "light-why" : light.state === "differs" ? "number bad" : "number soft"}>{light.state === "unknown" ? light.why : `${light.difference} · ${ageOf(light)}`}</span>
            </button>
          </li>
        ))}
      </ul>
      <Drawer opened={opened !== null} onClose={() => setOpened(null)} position="right" size={420} title={opened?.title ?? ""}>{opened && <LightPanel light={opened} />}</Drawer>
    </Section>
  );
}

const ageOf = (light: BookLight) => (light.age_seconds === null ? NOBODY_KNOWS : lasting(light.age_seconds));

function LightPanel({ light }: { light: BookLight }) {
  return (
    <dl className="facts">
      <dt>Check</dt><dd>{light.check}</dd>
      <dt>State</dt><dd><StateShape state={LIGHTS[light.state]} /> {light.state}</dd>
      <dt>Difference</dt><dd className="tabular">{light.difference || NOBODY_KNOWS}</dd>
      <dt>Age</dt><dd className="tabular">{ageOf(light)}</dd>
      {light.why && <><dt>Why</dt><dd>{light.why}</dd></>}
      <dt>Go on with</dt><dd><Command text={light.command} /></dd>
    </dl>
  );
}

function Happened({ happened }: { happened: Overview["happened"] }) {
  return (
    <Section title="What happened">
      {happened.length ? (
        <ol className="happened">
          {happened.map((each) => (
            <li key={`${each.at} ${each.text}`}><time dateTime={each.at ?? ""} title={moment(each.at)} className="tabular soft">{each.at ? clock(each.at) : NOBODY_KNOWS}</time><StateShape state={each.state} /><span className="happened-text">{each.text}</span><span className="soft">{each.by}</span></li>
          ))}
        </ol>
      ) : <p className="soft">Nothing was changed yet. Each change that somebody makes stands here, with who made it.</p>}
    </Section>
  );
}

function Loading() {
  return (
    <div aria-busy="true" aria-label="Loading" role="status">
      <span className="skeleton title" /><span className="skeleton detail" /><span className="skeleton strip-skeleton" /><span className="skeleton rows" />
    </div>
  );
}
