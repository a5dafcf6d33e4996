// Ending a key at once. What still uses it is told first.

import { useQuery } from "@tanstack/react-query";
import { EditDialog, terms } from "../components/edit-dialog";
import { api, answered } from "../api";
import { keyName, servedWords, typedName, type Key } from "./key-words";

export function RevokeKey({ tenant, of, title = `Revoke ${keyName(of)}`, onClose }: { tenant: string; of: Key; title?: string; onClose: () => void }) {
  const path = { tenant, key: of.key };
  return (
    <EditDialog
      title={title}
      save="Revoke"
      harmful
      confirm={typedName(of)}
      note="It cannot be taken back."
      onClose={onClose}
      typed=""
      send={(how) => answered(api.POST("/api/tenants/{tenant}/keys/{key}/revoke", { params: { path, ...terms(how) }, body: { reason: how.reason } }))}
      preview={() => <WhatStops tenant={tenant} of={of.key} />}
    />
  );
}

function WhatStops({ tenant, of }: { tenant: string; of: string }) {
  const { data } = useQuery({ queryKey: ["key in use", of], queryFn: () => answered(api.GET("/api/tenants/{tenant}/keys/{key}", { params: { path: { tenant, key: of } } })) });
  return (
    <div className={data?.requests ? "edit-warning" : ""}>
      {data && <p><b>{servedWords(data, "It")}{data.requests ? ": it is in use." : "."}</b></p>}
      <p>Whoever holds it is refused at once, and its open connections are closed. What it has running goes on.</p>
    </div>
  );
}
