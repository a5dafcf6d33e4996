// The keys of requests' metadata that are declared as tags: since when they count, declared and withdrawn by admins.

import { Button, TextInput } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { useState } from "react";
import { api, answered, type Schemas } from "../../../shared/api";
import { DataTable, type Column } from "../../../shared/components/data-table";
import { EditDialog, terms } from "../../../shared/components/edit-dialog";
import { Section } from "../../../shared/components/section";
import { Unanswered } from "../../../shared/components/unanswered";
import { useSession } from "../../../shared/session";
import { useTimes } from "../../../shared/zone";
import { useTenant } from "../../tenant";

export type Tag = Schemas["TagFacts"];

/** All tags of the tenant that were ever declared. */
export function useTags() {
  const { id } = useTenant();
  return useQuery({
    queryKey: ["tags", id],
    queryFn: () => answered(api.GET("/api/tenants/{tenant}/tags", { params: { path: { tenant: id } } })),
    retry: false,
  });
}

export function Tags({ asked }: { asked: ReturnType<typeof useTags> }) {
  const tags: readonly Tag[] | undefined = asked.data?.items;
  const { may } = useSession();
  const at = useTimes();
  const [declaring, setDeclaring] = useState(false);
  const [leaving, setLeaving] = useState<string | null>(null);
  const withdraw = (tag: Tag) => !tag.until && may("tags.withdraw") && <button type="button" className="link" aria-label={`Withdraw ${tag.key}…`} onClick={() => setLeaving(tag.key)}>Withdraw…</button>;
  const columns: Column<Tag>[] = [
    { title: "Key", cell: ({ key }) => <b>{key}</b> },
    { title: "Counts from", cell: ({ since }) => at(since) },
    { title: "Until", cell: ({ until }) => (until ? at(until) : "") },
    ...(may("tags.withdraw") ? [{ title: "", right: true, phone: "end", cell: withdraw } as const] : []),
  ];
  const declare = may("tags.declare") && <Button variant="default" size="xs" onClick={() => setDeclaring(true)}>Declare a tag…</Button>;
  return (
    <Section title="Tags" note="Keys your requests may carry in their metadata. What ended before a key was declared is not tagged." end={declare}>
      {tags === undefined ? <Unanswered asked={asked} /> : tags.length === 0 ? <p className="soft">No key is declared.</p> : <DataTable label="Tags" columns={columns} rows={tags} keyOf={(tag) => `${tag.key} ${tag.since}`} />}
      {declaring && <Declare onClose={() => setDeclaring(false)} />}
      {leaving && <Withdraw tag={leaving} onClose={() => setLeaving(null)} />}
    </Section>
  );
}

function Declare({ onClose }: { onClose: () => void }) {
  const { id } = useTenant();
  const at = useTimes();
  const [key, setKey] = useState("");
  return (
    <EditDialog
      title="Declare a tag"
      save="Declare"
      onClose={onClose}
      typed={key.trim() ? JSON.stringify({ key: key.trim() }) : ""}
      send={(how) => {
        const { query, header } = terms(how);
        return answered(api.POST("/api/tenants/{tenant}/tags", { params: { path: { tenant: id }, query, header }, body: { key: key.trim(), reason: how.reason } }));
      }}
      preview={(tag) => <p>Requests that end from {at(tag.since)} on are told apart by it.</p>}
    >
      {(errorOf) => <TextInput label="Key" description="As your requests have it in their metadata: {&quot;team&quot;: &quot;search&quot;} has the key team. Values are texts of up to 64 characters." value={key} onChange={(event) => setKey(event.currentTarget.value)} error={errorOf("key")} data-autofocus autoComplete="off" spellCheck={false} maxLength={64} />}
    </EditDialog>
  );
}

function Withdraw({ tag, onClose }: { tag: string; onClose: () => void }) {
  const at = useTimes();
  const { id } = useTenant();
  return (
    <EditDialog
      title={`Withdraw ${tag}`}
      save="Withdraw"
      onClose={onClose}
      typed=""
      send={(how) => {
        const { query, header } = terms(how);
        return answered(api.POST("/api/tenants/{tenant}/tags/{key}/withdraw", { params: { path: { tenant: id, key: tag }, query, header }, body: { reason: how.reason } }));
      }}
      preview={({ until }) => <p>Requests that end from {at(until)} on are not told apart by it. What is tagged stays so.</p>}
    />
  );
}
