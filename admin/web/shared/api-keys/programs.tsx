// Programs that make a key's first call, one a tab, with a button that copies the one that is shown.

import { Tabs } from "@mantine/core";
import { useState } from "react";
import { CopyButton } from "../components/command";
import { LANGUAGES, noteOf, snippetOf, type Language } from "./snippets";
import "./api-keys.css";

/** `secret` is copied, `shown` stands in its place on the page; `of`: what is copied. */
export function Programs({ gateway, secret, shown, of }: { gateway: string; secret: string; shown: string; of: string }) {
  const [language, setLanguage] = useState<Language>("Python");
  return (
    <Tabs color="var(--accent)" value={language} onChange={(value) => setLanguage(value as Language)}>
      <Tabs.List>
        {LANGUAGES.map((each) => <Tabs.Tab key={each} value={each}>{each}</Tabs.Tab>)}
        <span className="key-copy"><CopyButton text={snippetOf(language, gateway, secret)} of={of} /></span>
      </Tabs.List>
      {LANGUAGES.map((each) => (
        <Tabs.Panel key={each} value={each}>
          <pre tabIndex={0} role="group" aria-label={`${each} program`}>{snippetOf(each, gateway, shown)}</pre>
          {noteOf(each) && <p className="note">{noteOf(each)}</p>}
        </Tabs.Panel>
      ))}
    </Tabs>
  );
}
