// Making a key: what it is called, whose it is, what it may do. It is shown once.

import { Checkbox, NativeSelect, Textarea, TextInput } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { useState } from "react";
import { EditDialog, terms, type ErrorOf } from "../components/edit-dialog";
import { Facts } from "../components/facts";
import { api, answered, everyItem, type Schemas } from "../api";
import { useSession } from "../session";
import { useTimes } from "../zone";
import { KeyMade } from "./key-made";
import { originsOf, originWords, SCOPES, type KeyScope } from "./key-words";

const ENDS = [["", "never"], ["30", "in 30 days"], ["90", "in 90 days"], ["365", "in a year"]] as const;
const DAY_MS = 86_400_000;

/** `tenant`: its id or name; `called`: as people know it. */
export function CreateKey({ tenant, called = tenant, onClose }: { tenant: string; called?: string; onClose: () => void }) {
  const at = useTimes();
  const [name, setName] = useState("");
  const [project, setProject] = useState("default");
  const [user, setUser] = useState("");
  const [days, setDays] = useState("");
  const [scopes, setScopes] = useState<KeyScope[]>(["chat"]);
  const [origins, setOrigins] = useState("");
  const [began] = useState(() => Date.now());
  const expires = days ? new Date(began + Number(days) * DAY_MS).toISOString() : null;
  const body = { project, name: name.trim(), user: user.trim(), expires, scopes, origins: originsOf(origins) };
  return (
    <EditDialog
      title={`New key of ${called}`}
      save="Create key"
      onClose={onClose}
      size={520}
      typed={scopes.length ? JSON.stringify(body) : ""}
      send={(how) => answered(api.POST("/api/tenants/{tenant}/keys", { params: { path: { tenant }, ...terms(how) }, body: { ...body, reason: how.reason } }))}
      preview={({ key }) => <Facts boxed label="The key" facts={[["Speaks for", key.user ? <bdi>{key.user}</bdi> : "users that it names"], ["May", key.scopes.join(", ")], ["Used by", originWords(key.origins)], ["Ends", key.expires ? at(key.expires) : "never"]]} />}
      saved={(made) => <KeyMade made={made} tenant={called} />}
      savedTitle={`Your key ${name.trim()}`}
      closes="I have stored it"
      stays
    >
      {(errorOf) => (
        <>
          <div className="edit-pair">
            <TextInput label="Name" description="As its people are to know it." value={name} onChange={(event) => setName(event.currentTarget.value)} error={errorOf("name")} maxLength={200} autoComplete="off" data-autofocus />
            <ProjectInput tenant={tenant} value={project} onChange={setProject} error={errorOf("project")} />
          </div>
          <Scopes value={scopes} onChange={setScopes} errorOf={errorOf} />
          <Origins value={origins} onChange={setOrigins} errorOf={errorOf} />
          <div className="edit-pair">
            <TextInput label="User" description="Empty: it may name users itself." value={user} onChange={(event) => setUser(event.currentTarget.value)} error={errorOf("user")} autoComplete="off" />
            <NativeSelect label="Ends" description="It can be revoked at any time." value={days} onChange={(event) => setDays(event.currentTarget.value)} data={ENDS.map(([value, label]) => ({ value, label }))} error={errorOf("expires")} />
          </div>
        </>
      )}
    </EditDialog>
  );
}

/** The open projects of a tenant, to choose one. */
function ProjectInput({ tenant, value, onChange, error }: { tenant: string; value: string; onChange: (project: string) => void; error: string | undefined }) {
  const ask = () => everyItem((query) => answered(api.GET("/api/tenants/{tenant}/projects", { params: { path: { tenant }, query } })));
  const { data } = useQuery({ queryKey: ["project names", tenant], queryFn: ask });
  const open = data?.filter((each) => !each.closed).map((each) => each.name) ?? [];
  const names = open.includes(value) ? open : [value, ...open];
  return <NativeSelect label="Project" description="What its use is booked to." value={value} onChange={(event) => onChange(event.currentTarget.value)} data={names} error={error} />;
}

type ScopesInput = { value: KeyScope[]; onChange: (scopes: KeyScope[]) => void; errorOf: ErrorOf };

/** What a key may do. Money is not a developer's to show. */
export function Scopes({ value, onChange, errorOf }: ScopesInput) {
  const { me } = useSession();
  const shown = SCOPES.filter(([scope]) => !scope.startsWith("usage") || me.role !== "developer" || value.includes(scope));
  return (
    <Checkbox.Group label="It may" value={value} onChange={(chosen) => onChange(chosen as KeyScope[])} error={value.length ? errorOf("scopes") : "Choose what it may do."}>
      <div className="key-scopes">
        {shown.map(([scope, says]) => <Checkbox key={scope} color="var(--accent)" iconColor="var(--on-accent)" value={scope} label={<><code>{scope}</code> <span className="soft">{says}</span></>} />)}
      </div>
    </Checkbox.Group>
  );
}

type OriginsInput = { value: string; onChange: (origins: string) => void; errorOf: ErrorOf };

/** The web pages that may use a key, for one that stands in them. */
export function Origins({ value, onChange, errorOf }: OriginsInput) {
  return <Textarea label="Origins" description="For a key that stands in web pages: only pages of these may use it, one a line. Empty: any page and program." placeholder="https://app.example.com" value={value} onChange={(event) => onChange(event.currentTarget.value)} error={errorOf("origins")} rows={2} spellCheck={false} autoComplete="off" />;
}

export type NewKey = Schemas["NewKey"];
