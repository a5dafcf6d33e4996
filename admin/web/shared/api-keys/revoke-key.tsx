// Ending a key at once, with the old ones that it replaced and that still work. What still uses it is told first.

import { NativeSelect } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { useState } from "react";
import { EditDialog, terms, type How } from "../components/edit-dialog";
import { api, answered } from "../api";
import { keyName, servedWords, typedName, type Key } from "./key-words";

export function RevokeKey({ tenant, of, olds = [], title = `Revoke ${keyName(of)}`, onClose }: { tenant: string; of: Key; olds?: readonly Key[]; title?: string; onClose: () => void }) {
  const [which, setWhich] = useState("all");
  const ended = which === "new" ? [of] : which === "old" ? olds : [of, ...olds];
  const left = [of, ...olds].filter((each) => !ended.includes(each));
  const revoke = (key: Key, how: How) => answered(api.POST("/api/tenants/{tenant}/keys/{key}/revoke", { params: { path: { tenant, key: key.key }, ...terms({ ...how, key: key === of ? how.key : `${how.key}-${key.prefix}` }) }, body: { reason: how.reason } }));
  return (
    <EditDialog
      title={title}
      save="Revoke"
      harmful
      confirm={typedName(of)}
      note="It cannot be taken back."
      onClose={onClose}
      typed={which}
      send={async (how) => {
        for (const key of ended.slice(1)) await revoke(key, how);
        return await revoke(ended[0] ?? of, how);
      }}
      preview={() => <><WhatStops tenant={tenant} of={(ended[0] ?? of).key} />{left.length > 0 && <p className="edit-warning"><b>{prefixes(left)} works on.</b></p>}</>}
    >
      {() => olds.length > 0 && (
        <NativeSelect label="Which" description="The old one works on beside the new one until its time ends." value={which} onChange={(event) => setWhich(event.currentTarget.value)} data={[{ value: "all", label: `Both, ${prefixes([of, ...olds])}` }, { value: "old", label: `The old one, ${prefixes(olds)}` }, { value: "new", label: `The new one, ${prefixes([of])}` }]} />
      )}
    </EditDialog>
  );
}

const prefixes = (keys: readonly Key[]) => keys.map((key) => key.prefix).join(", ");

function WhatStops({ tenant, of }: { tenant: string; of: string }) {
  const { data } = useQuery({ queryKey: ["key in use", of], queryFn: () => answered(api.GET("/api/tenants/{tenant}/keys/{key}", { params: { path: { tenant, key: of } } })) });
  return (
    <div className={data?.requests ? "edit-warning" : ""}>
      {data && <p><b>{servedWords(data, "It")}{data.requests ? ": it is in use." : "."}</b></p>}
      <p>Whoever holds it is refused at once, and its open connections are closed. What it has running goes on.</p>
    </div>
  );
}
