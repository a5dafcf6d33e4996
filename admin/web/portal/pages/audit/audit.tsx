// Who changed what of the tenant, and what Parley's staff read of it.

import { Audit } from "../../../shared/components/audit-list";
import { OldFigures } from "../../old-figures";
import { useZone } from "../../../shared/zone";
import { useTenant } from "../../tenant";

export function AuditPage() {
  const { id } = useTenant();
  const zone = useZone().name;
  return (
    <>
      <h1 className="page-title">Audit log</h1>
      <p className="meta">Times are those of {zone}.</p>
      <p className="lead">Every change of your tenant, who made it and why, and what Parley’s staff looked at. <b>Nothing here can be edited or removed</b>: each row is chained to the one before.</p>
      <OldFigures />
      <Audit tenant={id} />
    </>
  );
}
