// A command, or a secret that is shown once, with a button that copies it.

import { useState } from "react";
import "./command.css";

export function Command({ text }: { text: string }) {
  return <span className="command"><code>{text}</code> <CopyButton text={text} /></span>;
}

/** What nobody can show again: a key's secret, a link that signs in. */
export function CopyOnce({ secret, label, note }: { secret: string; label: string; note: string }) {
  return (
    <div className="copy-once" role="group" aria-label={label}>
      <p><b>{label}</b></p>
      <span className="command"><code>{secret}</code> <CopyButton text={secret} /></span>
      <p className="note">{note}</p>
    </div>
  );
}

/** What copies `text`. `of`: what that is, where several stand together. */
export function CopyButton({ text, of }: { text: string; of?: string }) {
  const [said, setSaid] = useState("Copy");
  const copy = async () => {
    await navigator.clipboard.writeText(text).then(() => setSaid("Copied"), () => setSaid("Select it to copy"));
    setTimeout(() => setSaid("Copy"), 2000);
  };
  return <button type="button" className="link" aria-label={of && `${said} ${of}`} onClick={() => void copy()}>{said}</button>;
}
