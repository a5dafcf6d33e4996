// Sends that were refused: a row has the minute, who sent with which key, the code, and the latest ids.

import { count, NOBODY_KNOWS } from "../format";
import type { RefusedRow } from "./data";
import { shortId } from "./filter";
import type { ListPlace } from "./list";
import { RowTime } from "./row-time";
import { refusalWhy } from "./words";

export function RefusedTable({ rows, ...place }: ListPlace & { rows: readonly RefusedRow[] }) {
  return (
    <table className="table requests">
      <thead>
        <tr><th scope="col">Minute</th><th scope="col">Code</th>{!place.own && <th scope="col">Tenant</th>}<th scope="col">User</th><th scope="col">Key</th><th scope="col">Why</th><th scope="col">Latest requests</th><th scope="col" className="number">Refused</th></tr>
      </thead>
      <tbody>{rows.map((row) => <Row key={[row.minute_ms, row.tenant, row.key, row.user_id, row.code, row.why].join(" ")} row={row} {...place} />)}</tbody>
    </table>
  );
}

function Row({ row, Link, own, zone }: ListPlace & { row: RefusedRow }) {
  const who = row.others ? "all others" : row.user || NOBODY_KNOWS;
  const links = row.last_ids.slice(-3).map((id) => <Link key={id} id={id} tenant={row.tenant}>{shortId(id)}</Link>);
  const why = refusalWhy(row.why);
  return (
    <tr>
      <td className="tabular"><RowTime ms={row.minute_ms} zone={zone} minutes /></td>
      <td className="row-lead"><b>{row.code}</b></td>
      {!own && <td className="clip" title={row.tenant_name}>{row.tenant_name || NOBODY_KNOWS}</td>}
      <td className="clip">{who}</td>
      <td className="clip" title={row.key}>{row.key_name || row.key || NOBODY_KNOWS}</td>
      <td className="clip soft" title={why}>{why}</td>
      <td className="ids">{links}</td>
      <td className="number end">{count(row.number)}</td>
      <td className="phone-line soft"><RowTime ms={row.minute_ms} zone={zone} minutes />{" · "}{[own ? "" : row.tenant_name, who, row.key_name || row.key, why].filter(Boolean).join(" · ")}</td>
    </tr>
  );
}
