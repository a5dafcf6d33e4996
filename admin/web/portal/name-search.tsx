// A field that finds things by a part of their name. What is typed goes into the address, a moment after it was.

import { TextInput } from "@mantine/core";
import { useEffect, useState } from "react";

const AFTER_MS = 200;

/** `what`: like "keys". `onChange` is given what was typed, trimmed. */
export function NameSearch({ what, label = "Name contains", value, onChange }: { what: string; label?: string; value: string; onChange: (name: string) => void }) {
  const [name, setName] = useState(value);
  useEffect(() => setName(value), [value]);
  useEffect(() => {
    if (name.trim() === value) return;
    const waiting = setTimeout(() => onChange(name.trim()), AFTER_MS);
    return () => clearTimeout(waiting);
  });
  return (
    <div className="name-search" role="search" aria-label={`Find ${what}`}>
      <TextInput aria-label={label} placeholder={label} value={name} maxLength={100} onChange={(event) => setName(event.currentTarget.value)} autoComplete="off" spellCheck={false} />
    </div>
  );
}
