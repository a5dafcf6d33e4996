// Requests as rows: those that run first, then those that ended. On a phone a row is two lines.

import { StateShape } from "../components/state";
import { count, decimal, money, NOBODY_KNOWS, type Money } from "../format";
import type { EndedRow, LiveRow } from "./data";
import { shortId } from "./filter";
import type { ListPlace } from "./list";
import { RowTime } from "./row-time";
import { endWord, liveWord, type Word } from "./words";

type Props = ListPlace & { live: readonly LiveRow[]; ended: readonly EndedRow[]; nowMs: number };

export function RequestsTable({ live, ended, nowMs, ...place }: Props) {
  return (
    <table className="table requests">
      <thead>
        <tr>
          <th scope="col">Accepted</th><th scope="col">Request</th><th scope="col">State</th>
          {place.own ? <><th scope="col">Project</th><th scope="col">Key</th></> : <th scope="col">Tenant</th>}
          <th scope="col">User</th><th scope="col" className={place.own ? "" : "wide-only"}>Model</th>
          {!place.own && <th scope="col">Pool</th>}
          <th scope="col" className="number wide-only">First token, s</th><th scope="col" className="number">Took, s</th><th scope="col" className={place.own ? "number wide-only" : "number"}>In, tokens</th><th scope="col" className="number">Out, tokens</th><th scope="col" className="number">Cost, USD</th>
        </tr>
      </thead>
      <tbody>
        {live.map((row) => <Row key={`${row.tenant} ${row.id}`} row={liveFacts(row, nowMs)} {...place} />)}
        {ended.map((row) => <Row key={`${row.tenant} ${row.id}`} row={endedFacts(row)} {...place} />)}
      </tbody>
    </table>
  );
}

type Facts = { id: string; tenant: string; tenantName: string; acceptedMs: number; word: Word; project: string; key: string; user: string; model: string; pool: string; first: number | null; took: number; input: number; output: number; cost: Money | null };

function liveFacts(row: LiveRow, nowMs: number): Facts {
  const first = row.first_token_ms ? row.first_token_ms - row.accepted_ms : null;
  return { id: row.id, tenant: row.tenant, tenantName: row.tenant_name, acceptedMs: row.accepted_ms, word: liveWord(row.status, row.first_token_ms), project: row.project, key: row.key_name || row.key || "", user: row.user || NOBODY_KNOWS, model: row.model, pool: row.pool, first, took: Math.max(0, nowMs - row.accepted_ms), input: row.prompt_tokens, output: row.tokens, cost: null };
}

function endedFacts(row: EndedRow): Facts {
  const cost = { nano: String(BigInt(row.cost.nano) + BigInt(row.corrected.nano)), currency: row.cost.currency };
  return { id: row.id, tenant: row.tenant, tenantName: row.tenant_name, acceptedMs: row.accepted_ms, word: endWord(row.reason, row.code), project: row.project, key: row.key_name || row.key, user: row.user || NOBODY_KNOWS, model: row.model, pool: row.pool, first: row.first_token_after_ms, took: row.took_ms, input: row.input_uncached + row.input_cached, output: row.output_text + row.output_reasoning, cost };
}

function Row({ row, Link, own, zone }: ListPlace & { row: Facts }) {
  const project = own?.get(row.project) ?? row.project;
  const whose = own ? [project, row.key] : [row.tenantName];
  return (
    <tr>
      <td className="tabular"><RowTime ms={row.acceptedMs} zone={zone} /></td>
      <td className="row-lead"><Link id={row.id} tenant={row.tenant}><b>{shortId(row.id)}</b></Link></td>
      <td className="end"><StateWord word={row.word} /></td>
      {whose.map((name, at) => <td key={at} className="clip" title={name}>{name || NOBODY_KNOWS}</td>)}
      <td className="clip" title={row.user}>{row.user}</td>
      <td className={own ? "clip" : "clip wide-only"} title={row.model}>{row.model}</td>
      {!own && <td className="clip" title={row.pool}>{row.pool}</td>}
      <td className="number wide-only">{row.first === null ? NOBODY_KNOWS : decimal(row.first / 1000)}</td>
      <td className="number">{decimal(row.took / 1000, 1)}</td>
      <td className={own ? "number wide-only" : "number"}>{count(row.input)}</td>
      <td className="number">{count(row.output)}</td>
      <td className="number">{money(row.cost, 9)}</td>
      <td className="phone-line soft tabular"><RowTime ms={row.acceptedMs} zone={zone} />{" · "}{[...whose, row.user === NOBODY_KNOWS ? "" : row.user, own ? row.model : row.pool, `${decimal(row.took / 1000, 1)} s`, `${count(row.output)} out`, row.cost ? `${money(row.cost, 9)} USD` : ""].filter(Boolean).join(" · ")}</td>
    </tr>
  );
}

export function StateWord({ word }: { word: Word }) {
  return <span className="state-word"><StateShape state={word.shape} /> {word.word}</span>;
}
