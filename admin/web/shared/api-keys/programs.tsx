// Programs that make a key's first call, one a tab, with a button that copies the one that is shown.

import { Tabs } from "@mantine/core";
import { useState } from "react";
import { CopyButton } from "../components/command";
import { languagesOf, noteOf, snippetOf, type Language } from "./snippets";
import "./api-keys.css";

type Shown = { gateway: string; secret: string; shown: string; of: string; inPages?: boolean };

/** `secret` is copied, `shown` stands in its place on the page; `of`: what is copied; `inPages`: web pages use the key. */
export function Programs({ gateway, secret, shown, of, inPages = false }: Shown) {
  const languages = languagesOf(inPages);
  const [language, setLanguage] = useState<Language>(languages[0] ?? "Python");
  return (
    <Tabs color="var(--accent)" value={language} onChange={(value) => setLanguage(value as Language)}>
      <Tabs.List>
        {languages.map((each) => <Tabs.Tab key={each} value={each}>{each}</Tabs.Tab>)}
        <span className="key-copy"><CopyButton text={snippetOf(language, gateway, secret, inPages)} of={of} /></span>
      </Tabs.List>
      {languages.map((each) => (
        <Tabs.Panel key={each} value={each}>
          <pre tabIndex={0} role="group" aria-label={`${each} program`}>{snippetOf(each, gateway, shown, inPages)}</pre>
          {noteOf(each, inPages) && <p className="note">{noteOf(each, inPages)}</p>}
        </Tabs.Panel>
      ))}
    </Tabs>
  );
}
