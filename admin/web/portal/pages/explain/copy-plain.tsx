// A button at the head of a page that copies what names it: its link, or an id.

import { useState } from "react";

export function CopyPlain({ text, what }: { text: string; what: string }) {
  const [said, setSaid] = useState("");
  const copy = async () => {
    await navigator.clipboard.writeText(text).then(() => setSaid("Copied"), () => setSaid("Select it to copy"));
    setTimeout(() => setSaid(""), 2000);
  };
  return <button type="button" className="plain explain-copy" onClick={() => void copy()}>{said || `Copy ${what}`}</button>;
}
