// Sends that were refused: a row has the minute, who sent with which key, the code, and the latest ids.

import { clock, count, moment, NOBODY_KNOWS } from "../../shared/format";
import type { RefusedRow } from "../requests-data";
import { shortId } from "../requests-filter";
import { RequestLink } from "./requests";

export function RefusedTable({ rows }: { rows: readonly RefusedRow[] }) {
  return (
    <table className="table requests">
      <thead>
        <tr><th scope="col">Minute</th><th scope="col">Code</th><th scope="col">Tenant</th><th scope="col">User</th><th scope="col">Key</th><th scope="col">Why</th><th scope="col">Latest requests</th><th scope="col" className="number">Refused</th></tr>
      </thead>
      <tbody>{rows.map((row) => <Row key={[row.minute_ms, row.tenant, row.key, row.user_id, row.code].join(" ")} row={row} />)}</tbody>
    </table>
  );
}

function Row({ row }: { row: RefusedRow }) {
  const who = row.others ? "all others" : row.user || NOBODY_KNOWS;
  const minute = new Date(row.minute_ms);
  const links = row.last_ids.slice(-3).map((id) => <RequestLink key={id} id={id} tenant={row.tenant}>{shortId(id)}</RequestLink>);
  return (
    <tr>
      <td className="tabular"><time dateTime={minute.toISOString()} title={moment(minute)}>{Date.now() - row.minute_ms < 86_400_000 ? clock(minute).slice(0, 5) : moment(minute).slice(5, 16)}</time></td>
      <td className="lead"><b>{row.code}</b></td>
      <td className="clip" title={row.tenant_name}>{row.tenant_name || NOBODY_KNOWS}</td>
      <td className="clip">{who}</td>
      <td className="clip" title={row.key}>{row.key_name || row.key || NOBODY_KNOWS}</td>
      <td className="clip soft" title={row.why}>{row.why}</td>
      <td className="ids">{links}</td>
      <td className="number end">{count(row.number)}</td>
      <td className="phone-line soft">{[row.tenant_name, who, row.key_name || row.key, row.why].filter(Boolean).join(" · ")}</td>
    </tr>
  );
}
