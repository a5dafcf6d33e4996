// A thing by its name. Its id stands on hover, and a press copies it.

import { useState } from "react";
import { shortened } from "../changes";
import "./called.css";

/** `name`: undefined where nobody knows it, then the end of the id stands for it. */
export function Called({ id, name }: { id: string; name: string | undefined }) {
  const [said, setSaid] = useState("");
  const copy = async () => {
    await navigator.clipboard.writeText(id).then(() => setSaid("id copied"), () => setSaid(id));
    setTimeout(() => setSaid(""), 2000);
  };
  return <button type="button" className="called" title={`${id} (press to copy)`} onClick={() => void copy()}><bdi>{name ?? shortened(id)}</bdi>{said && <span role="status" className="soft"> {said}</span>}</button>;
}
