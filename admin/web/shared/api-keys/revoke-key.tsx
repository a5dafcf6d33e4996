// Ending a key at once; while it is rotated, the old one, the new one or both. What still uses them is told first.

import { Radio } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { useState } from "react";
import { EditDialog, terms } from "../components/edit-dialog";
import { api, answered, type Schemas } from "../api";
import { keyName, rotationChoices, servedWords, typedName, type Key, type Which } from "./key-words";

type Revoke = { tenant: string; of: Key; olds?: readonly Key[]; first?: Which; onClose: () => void };

/** `olds`: the keys that it replaced and that still work; `first`: which of them is chosen at first. */
export function RevokeKey({ tenant, of, olds = [], first = "both", onClose }: Revoke) {
  const [which, setWhich] = useState<Which>(first);
  const choices = rotationChoices(of, olds);
  const rotated = olds.length > 0;
  const path = { tenant, key: of.key };
  const body = rotated ? { which } : {};
  return (
    <EditDialog
      title={`Revoke ${keyName(of)}`}
      save={rotated ? (choices.find((each) => each.which === which)?.save ?? "Revoke") : "Revoke"}
      harmful
      confirm={typedName(of)}
      note="It cannot be taken back."
      onClose={onClose}
      typed={rotated ? JSON.stringify({ which }) : "{}"}
      send={(how) => answered(api.POST("/api/tenants/{tenant}/keys/{key}/revoke", { params: { path, ...terms(how) }, body: { ...body, reason: how.reason } }))}
      preview={(would) => <WhatStops tenant={tenant} would={would} />}
    >
      {(errorOf) => rotated && (
        <Radio.Group label="Which" description="It is being rotated: the old and the new key both work." value={which} onChange={(value) => setWhich(value as Which)} error={errorOf("which")}>
          {choices.map((each) => <Radio key={each.which} value={each.which} label={each.label} description={each.ends} className="key-choice" />)}
        </Radio.Group>
      )}
    </EditDialog>
  );
}

function WhatStops({ tenant, would }: { tenant: string; would: Schemas["RevokedKey"] }) {
  const [going] = would.goes_on;
  return (
    <div className="edit-warning">
      {would.ended.map((prefix) => <InUse key={prefix} tenant={tenant} prefix={prefix} />)}
      <p>Whoever holds <code>{would.ended.join(", ")}</code> is refused at once, and open connections are closed. What runs goes on.</p>
      {going && <p><b>Whoever holds <code>{would.goes_on.join(", ")}</code> is still let in, and billed.</b></p>}
    </div>
  );
}

function InUse({ tenant, prefix }: { tenant: string; prefix: string }) {
  const ask = () => answered(api.GET("/api/tenants/{tenant}/keys/{key}", { params: { path: { tenant, key: prefix } } }));
  const { data } = useQuery({ queryKey: ["key in use", prefix], queryFn: ask });
  return data ? <p><b>{servedWords(data, prefix)}{data.requests ? ": it is in use." : "."}</b></p> : null;
}
