// What reading input from the cache saved, by model.

import { Section } from "../../../shared/components/section";
import { Unanswered } from "../../../shared/components/unanswered";
import { answered, api, type Schemas } from "../../../shared/api";
import { centsOf, centsText, changeText, roundingOf } from "../../../shared/cents";
import { count, percent } from "../../../shared/format";
import { useLive } from "../../../shared/live";
import "./cache.css";

type Cache = Schemas["SpendCache"];
type Row = Cache["total"];

const EVERY_MS = 30_000;

export function CacheSection({ tenant, month }: { tenant: string; month?: string | undefined }) {
  const query = month ? { month } : {};
  const asked = useLive(["spend.cache", tenant, query], () => answered(api.GET("/api/tenants/{tenant}/spend/cache", { params: { path: { tenant }, query } })), EVERY_MS);
  return <Section title="What did the cache save?">{asked.data ? <Saved cache={asked.data} /> : <Unanswered asked={asked} />}</Section>;
}

function Saved({ cache }: { cache: Cache }) {
  const { total } = cache;
  if (!total.input_tokens) return <p className="soft">No input was read in this month.</p>;
  const rows = [...cache.models, ...(cache.more ? [{ ...cache.others, model: `Other ${count(cache.more)} models` }] : [])];
  const rounding = roundingOf(rows.map((row) => row.saved), total.saved);
  return (
    <>
      <p className="soft">{shareOf(total)} of input was read from the cache and billed at its lower price.</p>
      <table className="table cache">
        <thead><tr><th scope="col">Model</th><th scope="col" className="number cache-input">Input tokens</th><th scope="col" className="number">From cache</th><th scope="col" className="number">Saved</th></tr></thead>
        <tbody>
          {rows.map((row) => <tr key={row.model}><td className="cache-model"><bdi>{row.model || "No model"}</bdi></td><Numbers row={row} /></tr>)}
          {rounding !== 0n && <tr className="rounding"><td>Rounding to cents</td><td className="cache-input" /><td /><td className="number">{changeText(rounding)}</td></tr>}
        </tbody>
        <tfoot><tr><th scope="row">Total</th><Numbers row={total} /></tr></tfoot>
      </table>
      {cache.unpriced > 0 && <p className="note">{count(cache.unpriced)} cached tokens are of a price version that is not known any more; they are counted as saving nothing.</p>}
    </>
  );
}

function Numbers({ row }: { row: Row }) {
  return <><td className="number cache-input">{count(row.input_tokens)}</td><td className="number">{shareOf(row)}</td><td className="number">{centsText(centsOf(row.saved))}</td></>;
}

const shareOf = (row: Row) => (row.input_tokens > 0 ? `${percent(Math.max(0, Math.round((row.cached_tokens / row.input_tokens) * 100)) / 100)} %` : "0 %");
