// A new pool: its model, how many workers, on which nodes, and who pays.

import { TextInput } from "@mantine/core";
import { useNavigate } from "@tanstack/react-router";
import { useId, useState } from "react";
import { EditDialog, terms, type ErrorOf } from "../../../shared/components/edit-dialog";
import { Facts } from "../../../shared/components/facts";
import { api, answered } from "../../../shared/api";
import { useQuery } from "@tanstack/react-query";
import { useSession } from "../../../shared/session";
import { useDesired, useOverview } from "./asked";
import { factsOf, MADE_SO, wholeOf } from "./desired";

/** A new pool, whose page opens when it is made. */
export function CreatePool({ onClose }: { onClose: () => void }) {
  const navigate = useNavigate();
  const [texts, setTexts] = useState({ pool: "", model: "", workers: "1", labels: "", tenant: "" });
  const workers = wholeOf(texts.workers);
  const labels = texts.labels.split(/[\s,]+/).filter(Boolean);
  const body = { pool: texts.pool.trim(), model: texts.model.trim(), workers: workers ?? 0, tenant: texts.tenant.trim() || null, labels };
  const [ids, models, tenants] = [useId(), useModels(), useTenantsNamed(body.tenant ?? "")];
  const field = (name: keyof typeof texts, label: string, description: string, errorOf: ErrorOf, more = {}) => (
    <TextInput label={label} description={description} value={texts[name]} onChange={(event) => setTexts({ ...texts, [name]: event.currentTarget.value })} error={errorOf(name)} autoComplete="off" spellCheck={false} {...more} />
  );
  return (
    <EditDialog
      title="Create a pool"
      save="Create pool"
      note={MADE_SO}
      onClose={onClose}
      typed={body.pool && body.model && workers !== null ? JSON.stringify(body) : ""}
      send={(how) => answered(api.POST("/api/pools", { params: terms(how), body: { ...body, reason: how.reason } }))}
      preview={(would) => <Facts boxed label="What it will be" facts={factsOf(would)} />}
      saved={(made) => void navigate({ to: "/pools/$pool", params: { pool: made.pool } })}
    >
      {(errorOf) => (
        <>
          {field("pool", "Name", "Like eu-1.", errorOf, { "data-autofocus": true })}
          {field("model", "Model", "The model that its workers run, in its newest version.", errorOf, { list: `${ids}-models` })}
          <datalist id={`${ids}-models`}>{models.map((each) => <option key={each} value={each} />)}</datalist>
          {field("workers", "Workers", "How many should run.", errorOf, { inputMode: "numeric" })}
          {field("labels", "Nodes", "Labels that they must have, like zone=eu. Empty: any.", errorOf)}
          {field("tenant", "Tenant", "Who pays and is served there alone: its new requests go there from its first ready worker on. Empty: it is shared.", errorOf, { list: `${ids}-tenants` })}
          <datalist id={`${ids}-tenants`}>{tenants.map((each) => <option key={each} value={each} />)}</datalist>
        </>
      )}
    </EditDialog>
  );
}

/** The models of all pools, to choose from. */
function useModels(): string[] {
  const [desired, seen] = [useDesired(), useOverview().data?.pools ?? []];
  return [...new Set([...desired.values(), ...seen].map((each) => each.model))].filter(Boolean).toSorted();
}

/** Open tenants with this in their name, to choose from. */
function useTenantsNamed(name: string): string[] {
  const { may } = useSession();
  const { data } = useQuery({ queryKey: ["tenants named", name], queryFn: () => answered(api.GET("/api/tenants", { params: { query: { name, state: "open", limit: 20 } } })), enabled: may("tenants.list"), retry: false, placeholderData: (before) => before });
  return (data?.items ?? []).map((each) => each.name);
}
