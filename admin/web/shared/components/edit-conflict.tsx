// What is said where somebody else was faster: who changed it, when, from what to what; and how to go on with that.

import { Button } from "@mantine/core";
import { CircleX } from "lucide-react";
import type { ReactNode } from "react";
import type { Change } from "../api";
import { differences } from "../changes";
import { ago } from "../format";

/** From what to what it was changed, like "from 8 to 12". */
export type FromTo = (before: Record<string, unknown>, after: Record<string, unknown>) => string;

/** What stands now: its ETag, and how the form is filled with it. */
export type Standing = { tag: string | undefined; take?: { label: string; fill: () => void } };

type Props = {
  /** Names of members by their ids. */
  nameOf: (id: string) => string | undefined;
  changes: readonly Change[];
  /** What is edited, like "this budget". */
  of?: string | undefined;
  fromTo?: FromTo | undefined;
  /** A sentence in place of who changed what. */
  told?: string | undefined;
  /** One for where nobody says who it was. */
  otherwise?: string | undefined;
  take?: { label: string; fill: () => void } | undefined;
};

export function Conflict({ nameOf, changes, of = "this", fromTo, told, otherwise = "Somebody changed this meanwhile.", take }: Props) {
  const [last] = changes;
  let what: ReactNode = <><b>Not saved.</b> {told ?? otherwise}</>;
  if (last && !told) {
    const [before, after] = [factsOf(changes.at(-1)?.before), factsOf(last.after)];
    const change = fromTo?.(before, after) || differences(before, after);
    what = <><b>Not saved: <bdi>{whoOf(last.author, nameOf)}</bdi> changed {of}{last.at && ` ${ago(last.at)}`}</b>{change && `, ${change}`}.</>;
  }
  return (
    <div role="alert" className="edit-conflict">
      <CircleX size={16} aria-hidden />
      <div>
        {what} What you typed is kept.
        {take && <p className="edit-take"><Button variant="default" size="xs" onClick={take.fill}>{take.label}</Button></p>}
      </div>
    </div>
  );
}

const ID = /^(token )?[0-9a-f]{8}-[0-9a-f-]{27}$/;

function whoOf(author: string | undefined, nameOf: (id: string) => string | undefined): string {
  if (!author) return "Somebody";
  return nameOf(author) ?? (ID.test(author) ? (author.startsWith("token ") ? "A token of your tenant" : "Another member") : author);
}

const factsOf = (row: unknown) => (typeof row === "object" && row !== null ? (row as Record<string, unknown>) : {});
