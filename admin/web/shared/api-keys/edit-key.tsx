// Another name for a key, other scopes or other origins. Its secret stays as it is.

import { TextInput } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { useState } from "react";
import type { Standing } from "../components/edit-conflict";
import { EditDialog, terms } from "../components/edit-dialog";
import { Facts } from "../components/facts";
import { api, answered, answeredWithTag } from "../api";
import { Origins, Scopes } from "./create-key";
import { keyName, originsOf, originWords, type Key, type KeyScope } from "./key-words";

export function EditKey({ tenant, of, onClose }: { tenant: string; of: Key; onClose: () => void }) {
  const [name, setName] = useState(of.name);
  const [scopes, setScopes] = useState(of.scopes as KeyScope[]);
  const [origins, setOrigins] = useState(of.origins.join("\n"));
  const path = { tenant, key: of.key };
  const read = () => answeredWithTag(api.GET("/api/tenants/{tenant}/keys/{key}", { params: { path } }));
  const { data: known, refetch } = useQuery({ queryKey: ["key as it was", of.key], queryFn: read, staleTime: Infinity, gcTime: 0 });
  const reread = async (): Promise<Standing> => {
    const now = (await refetch()).data;
    if (!now) return { tag: undefined };
    const fill = () => {
      setName(now.data.name);
      setScopes(now.data.scopes as KeyScope[]);
      setOrigins(now.data.origins.join("\n"));
    };
    return { tag: now.tag, take: { label: "Take what stands now", fill } };
  };
  if (!known) return null;
  const [renamed, other, moved] = [name.trim() !== known.data.name, !same(scopes, known.data.scopes), !same(originsOf(origins), known.data.origins)];
  const body = { ...(renamed ? { name: name.trim() } : {}), ...(other ? { scopes } : {}), ...(moved ? { origins: originsOf(origins) } : {}) };
  return (
    <EditDialog
      title={`Edit ${keyName(of)}`}
      save="Save"
      onClose={onClose}
      tag={known.tag}
      reread={reread}
      of="this key"
      typed={(renamed || other || moved) && scopes.length ? JSON.stringify({ name, scopes, origins, ...body }) : ""}
      send={(how) => answered(api.PATCH("/api/tenants/{tenant}/keys/{key}", { params: { path, ...terms(how) }, body: { ...body, reason: how.reason } }))}
      preview={(would) => <Facts boxed label="What changes" facts={changes(known.data, would)} />}
    >
      {(errorOf) => (
        <>
          <TextInput label="Name" value={name} onChange={(event) => setName(event.currentTarget.value)} error={errorOf("name")} maxLength={200} autoComplete="off" data-autofocus />
          <Scopes value={scopes} onChange={setScopes} errorOf={errorOf} />
          <Origins value={origins} onChange={setOrigins} errorOf={errorOf} />
        </>
      )}
    </EditDialog>
  );
}

const same = (one: readonly string[], other: readonly string[]) => one.toSorted().join() === other.toSorted().join();

type Facets = { name: string; prefix: string; scopes: string[]; origins: string[] };

function changes(now: Facets, would: Facets): [string, string][] {
  const rows: [string, string][] = [];
  if (now.name !== would.name) rows.push(["Name", `${keyName(now)} → ${keyName(would)}`]);
  const [more, less] = [would.scopes.filter((each) => !now.scopes.includes(each)), now.scopes.filter((each) => !would.scopes.includes(each))];
  if (more.length) rows.push(["It may now", more.join(", ")]);
  if (less.length) rows.push(["It may no more", less.join(", ")]);
  if (!same(now.origins, would.origins)) rows.push(["Used by", originWords(would.origins)]);
  return rows;
}
