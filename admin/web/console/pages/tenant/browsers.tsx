// Browsers that are signed in with a tenant's keys, and signing them out.

import { useState } from "react";
import { DataTable, type Column } from "../../../shared/components/data-table";
import { EditDialog, terms } from "../../../shared/components/edit-dialog";
import { LoadMore, usePages } from "../../../shared/components/load-more";
import { Section } from "../../../shared/components/section";
import { api, answered, type Schemas } from "../../../shared/api";
import { ago, moment, NOBODY_KNOWS } from "../../../shared/format";
import { useSession } from "../../../shared/session";
import { date } from "../../../shared/limits/limit-words";

type Browser = Schemas["SessionFacts"];

export function Browsers({ tenant }: { tenant: string }) {
  const { may } = useSession();
  return may("sessions.list") ? <BrowserList tenant={tenant} /> : null;
}

function BrowserList({ tenant }: { tenant: string }) {
  const { may } = useSession();
  const [opened, setOpened] = useState<Browser | null>(null);
  const { items, error, more } = usePages<Browser>(["browsers", tenant], (after) => answered(api.GET("/api/tenants/{tenant}/sessions", { params: { path: { tenant }, query: { after, limit: 20 } } })));
  const columns: Column<Browser>[] = [
    { title: "User", cell: (browser) => <b>{browser.user}</b> },
    { title: "Browser", cell: (browser) => browser.agent || NOBODY_KNOWS },
    { title: "Address", cell: (browser) => browser.address || NOBODY_KNOWS },
    { title: "Seen", number: true, phone: "end", cell: (browser) => (browser.seen ? <time dateTime={browser.seen} title={moment(browser.seen)}>{ago(browser.seen)}</time> : NOBODY_KNOWS) },
    { title: "Ends", right: true, cell: (browser) => date(browser.ends) },
    { title: "", number: true, cell: (browser) => may("sessions.revoke") && <button type="button" className="link" aria-label={`Sign out ${browser.user}`} onClick={() => setOpened(browser)}>Sign out…</button> },
  ];
  return (
    <Section title="Browser sessions" note="signed in now, the newest first">
      {items ? (items.length ? <DataTable label="Browser sessions" columns={columns} rows={items} keyOf={(browser) => browser.session} /> : <p className="soft">No browser is signed in with its keys.</p>) : error ? <p className="soft">{error.detail}</p> : <span className="skeleton" />}
      <LoadMore more={more} what="sessions" />
      {opened && (
        <EditDialog
          title={`Sign ${opened.user} out`}
          save="Sign out"
          harmful
          onClose={() => setOpened(null)}
          typed=""
          send={(how) => answered(api.POST("/api/tenants/{tenant}/sessions/revoke", { params: { path: { tenant }, ...terms(how) }, body: { session: opened.session, reason: how.reason } }))}
          preview={() => <p>This browser is signed out, and its connections close within a second. The key stays good.</p>}
        />
      )}
    </Section>
  );
}
