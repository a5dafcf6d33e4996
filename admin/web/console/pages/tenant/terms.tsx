// What a tenant may take of the pools, changed.

import { TextInput } from "@mantine/core";
import { useState } from "react";
import { EditDialog, terms } from "../../../shared/components/edit-dialog";
import { Facts } from "../../../shared/components/facts";
import { api, answered, answeredWithTag, type Schemas } from "../../../shared/api";

type Terms = Schemas["TermsFacts"];
export type TermsRead = { data: Terms; tag: string | undefined };
type Field = "weight" | "slots_max" | "tokens_max" | "reserve_tokens";

const FIELDS: readonly [Field, string, string][] = [
  ["slots_max", "Running at once", "Empty: as much as there is."],
  ["tokens_max", "Tokens in memory at once", "Empty: as much as there is."],
  ["weight", "Share against others", "1 is everybody's."],
  ["reserve_tokens", "Tokens kept free", "Of each pool, for it alone."],
];

/** `only`: the one field to change, as throttling does. */
export function EditTerms({ tenant, began: given, title, only, onClose }: { tenant: string; began: TermsRead; title: string; only?: Field; onClose: () => void }) {
  const [began] = useState(given); // as they were when the dialog opened
  const [texts, setTexts] = useState(() => Object.fromEntries(FIELDS.map(([field]) => [field, String(began.data[field] ?? "")])) as Record<Field, string>);
  const values = FIELDS.map(([field]) => [field, valueOf(field, texts[field])] as const);
  const wrong = values.filter(([, value]) => value === undefined).map(([field]) => field);
  const changed = Object.fromEntries(values.filter(([field, value]) => value !== began.data[field])) as Partial<Record<Field, number>>;
  const path = { tenant };
  const show = (value: unknown) => (value === null || value === undefined ? "no maximum" : String(value));
  return (
    <EditDialog
      title={title}
      save="Save"
      onClose={onClose}
      tag={began.tag}
      reread={async () => (await answeredWithTag(api.GET("/api/tenants/{tenant}/terms", { params: { path } }))).tag}
      typed={wrong.length || !Object.keys(changed).length ? "" : JSON.stringify(Object.fromEntries(values))}
      send={(how) => answered(api.PATCH("/api/tenants/{tenant}/terms", { params: { path, ...terms(how) }, body: { ...changed, reason: how.reason } }))}
      preview={(would) => <Facts boxed label="What changes" facts={FIELDS.filter(([field]) => field in changed).map(([field, name]) => [name, `${show(began.data[field])} → ${show(would[field])}, within a second`])} />}
    >
      {(errorOf) => (
        <div className={only ? "" : "edit-pair"}>
          {FIELDS.filter(([field]) => !only || field === only).map(([field, name, what], index) => (
            <TextInput
              key={field}
              label={name}
              description={what}
              inputMode="decimal"
              value={texts[field]}
              onChange={(event) => setTexts({ ...texts, [field]: event.currentTarget.value })}
              error={wrong.includes(field) ? "A number, like 8." : errorOf(field)}
              autoComplete="off"
              {...(index === 0 ? { "data-autofocus": true } : {})}
            />
          ))}
        </div>
      )}
    </EditDialog>
  );
}

/** A field's value; undefined: this is none. */
function valueOf(field: Field, text: string): number | null | undefined {
  const plain = text.replaceAll(/[ ,]/g, "");
  if (plain === "") return field === "slots_max" || field === "tokens_max" ? null : undefined;
  if (field === "weight") return /^\d{1,9}(\.\d{1,6})?$/.test(plain) ? Number(plain) : undefined;
  return /^\d{1,15}$/.test(plain) ? Number(plain) : undefined;
}
