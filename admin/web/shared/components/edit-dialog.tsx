// A dialog that changes something: its fields, what the change would do (a dry run), why it is made, and what to do
// when somebody else was faster. What was typed stays until it is saved or cancelled.

import { Button, Modal, Textarea, TextInput } from "@mantine/core";
import { useMediaQuery } from "@mantine/hooks";
import { useQueryClient } from "@tanstack/react-query";
import { useEffect, useRef, useState, type FormEvent, type ReactNode, type RefObject } from "react";
import { Problem, type Change } from "../api";
import { sentence } from "../words";
import { useNameOf } from "./author";
import { Conflict, type FromTo, type Standing } from "./edit-conflict";
import "./edit-dialog.css";
import { newId } from "../ids";

/** How a call is to be made. Give `terms(how)` as its query and header, and `how.reason` in its body. */
export type How = { dryRun: boolean; reason: string; tag: string | undefined; key: string };
export type ErrorOf = (field: string) => string | undefined;

type Edit<Answer> = {
  title: string;
  /** The words of the button that saves. */
  save: string;
  onClose: () => void;
  send: (how: How) => Promise<Answer>;
  /** What was typed, as one text: a change of it is tried anew. Empty: there is nothing to save yet. */
  typed: string;
  /** What the change would do, from the answer of its dry run. Left out: nothing is tried. */
  preview?: (answer: Answer) => ReactNode;
  /** After it was saved. Something given is shown in place of the form, as a secret that is shown once. */
  saved?: (answer: Answer) => ReactNode | void;
  /** The words of the button below that; by default Done. */
  closes?: string;
  /** The title beside that. */
  savedTitle?: string;
  /** Nothing but that button closes it then: what is shown is shown this once. */
  stays?: boolean;
  /** Its width; by default 480. */
  size?: number;
  /** What stands beside that button. */
  beside?: ReactNode;
  /** The ETag of what the form began with, and how it is read again. */
  tag?: string | undefined;
  reread?: () => Promise<string | undefined | Standing>;
  /** What is edited, as others' changes of it are told: "this budget". */
  of?: string;
  /** From what to what they changed it; by default each fact that differs. */
  fromTo?: FromTo;
  /** How a change that somebody else made meanwhile is told, and the button that saves over it; null: as any is. */
  overwrites?: (changes: readonly Change[]) => { told: string; save: string } | null;
  /** The field that a conflict names, where it is not If-Match: then its own words tell what was changed. */
  conflictOn?: string;
  /** The name that must be typed first. */
  confirm?: string;
  /** It takes something away: the button is red. */
  harmful?: boolean;
  note?: string | undefined;
  children?: (errorOf: ErrorOf) => ReactNode;
};

/** The query and headers of a call that changes something. */
export function terms(how: How) {
  return { query: { dry_run: how.dryRun }, header: { "Idempotency-Key": how.key, ...(how.tag ? { "If-Match": how.tag } : {}) } };
}

const TRIED_AFTER_MS = 350;

export function EditDialog<Answer>(edit: Edit<Answer>) {
  const phone = useMediaQuery("(width < 640px)") ?? false;
  const queries = useQueryClient();
  const nameOf = useNameOf();
  const [reason, setReason] = useState("");
  const [name, setName] = useState("");
  const [standing, setStanding] = useState<Standing>({ tag: edit.tag });
  const { tag } = standing;
  const [conflict, setConflict] = useState<Problem | null>(null);
  const [refused, setRefused] = useState<Problem | null>(null);
  const [busy, setBusy] = useState(false);
  const [shown, setShown] = useState<ReactNode>(null);
  const saving = useRef(false);
  const trial = useTrial(edit, tag, saving);
  const key = useKeyOf(`${edit.typed} ${reason} ${tag ?? ""}`);
  useEffect(() => setRefused(null), [edit.typed, reason, name]);

  const problem = refused ?? trial.refused;
  const errorOf: ErrorOf = (field) => (problem?.field === field ? sentence(problem.detail) : undefined);
  const save = async (event: FormEvent) => {
    event.preventDefault();
    const lacking = lack(edit, reason, name);
    if (lacking) return setRefused(lacking);
    setBusy(true);
    saving.current = true;
    try {
      const answer = await edit.send({ dryRun: false, reason: reason.trim(), tag, key });
      void queries.invalidateQueries();
      const left = edit.saved?.(answer);
      if (left) setShown(left);
      else edit.onClose();
    } catch (error) {
      saving.current = false;
      const told = error instanceof Problem ? error : new Problem(0, String(error));
      if (told.status === 409 && told.field === (edit.conflictOn ?? "if-match")) {
        const now = await edit.reread?.().catch(() => undefined);
        setStanding(typeof now === "object" ? now : { tag: now });
        setConflict(told);
      } else setRefused(told);
    } finally {
      setBusy(false);
    }
  };
  const stays = shown !== null && edit.stays === true;
  const meanwhile = conflict && edit.overwrites?.(conflict.changes);
  const take = standing.take && { label: standing.take.label, fill: () => { standing.take?.fill(); setConflict(null); } };
  const lost = problem && !known(problem.field, edit) ? problem : null;
  return (
    <Modal opened onClose={edit.onClose} title={shown ? (edit.savedTitle ?? edit.title) : edit.title} size={edit.size ?? 480} fullScreen={phone} closeOnClickOutside={false} closeOnEscape={!stays} withCloseButton={!stays}>
      {shown ? <div className="edit"><div>{shown}</div><div className="edit-foot">{edit.beside}<Button onClick={edit.onClose} data-autofocus>{edit.closes ?? "Done"}</Button></div></div> : (
        <form className="edit" onSubmit={(event) => void save(event)} noValidate>
          {conflict && <Conflict nameOf={nameOf} changes={conflict.changes} of={edit.of} fromTo={edit.fromTo} told={meanwhile?.told} otherwise={edit.conflictOn ? sentence(conflict.detail) : undefined} take={take} />}
          {edit.children?.(errorOf)}
          {lost && <p role="alert" className="edit-refused">{sentence(lost.detail)}</p>}
          {trial.answer !== null && !refused && <div aria-live="polite">{edit.preview?.(trial.answer)}</div>}
          {edit.confirm !== undefined && (
            <TextInput label={`Type ${edit.confirm} to confirm`} value={name} onChange={(event) => setName(event.currentTarget.value)} error={errorOf("confirm")} autoComplete="off" spellCheck={false} />
          )}
          <Textarea label="Reason" description="Goes to the audit log." value={reason} onChange={(event) => setReason(event.currentTarget.value)} error={errorOf("reason")} maxLength={500} rows={2} />
          <div className="edit-foot">
            <span className="note">{edit.note ?? "Nothing changes before you save."}</span>
            <Button variant="default" onClick={edit.onClose}>Cancel</Button>
            <Button type="submit" loading={busy} className={edit.harmful ? "harmful" : ""}>{conflict ? (meanwhile?.save ?? "Save over it") : edit.save}</Button>
          </div>
        </form>
      )}
    </Modal>
  );
}

/** Whether a refusal stands beside a field: the fields that a form has are in its `typed`, the dialog has two. */
function known(field: string | undefined, edit: { typed: string; children?: unknown; confirm?: string }): boolean {
  if (!field) return false;
  return field === "reason" || field === "confirm" || (edit.children !== undefined && edit.typed.includes(`"${field}"`));
}

function lack(edit: { typed: string; confirm?: string; children?: unknown }, reason: string, name: string): Problem | null {
  if (edit.children && !edit.typed) return new Problem(400, "There is nothing to save yet: something is missing or not right, or all is as it was.");
  if (edit.confirm !== undefined && name.trim() !== edit.confirm) return new Problem(400, `Type ${edit.confirm}: this is not its name.`, "confirm");
  return reason.trim() ? null : new Problem(400, "Say why: others read it in the audit log.", "reason");
}

/** The dry run of what is typed, a moment after it was; none once it is `saving`, as it would be tried twice. */
function useTrial<Answer>(edit: Edit<Answer>, tag: string | undefined, saving: RefObject<boolean>) {
  const [answer, setAnswer] = useState<Answer | null>(null);
  const [refused, setRefused] = useState<Problem | null>(null);
  const send = useRef(edit.send);
  send.current = edit.send;
  const wanted = edit.preview !== undefined && (edit.typed !== "" || edit.children === undefined);
  useEffect(() => {
    setRefused(null);
    setAnswer(null);
    if (!wanted) return;
    let stopped = false;
    const waiting = setTimeout(() => {
      if (saving.current) return;
      send.current({ dryRun: true, reason: "preview", tag: undefined, key: newId() }).then(
        (given) => !stopped && setAnswer(given),
        (error: unknown) => !stopped && error instanceof Problem && error.status !== 401 && setRefused(error),
      );
    }, TRIED_AFTER_MS);
    return () => {
      stopped = true;
      clearTimeout(waiting);
    };
  }, [edit.typed, wanted, tag]);
  return { answer, refused };
}

/** One name for the call while nothing of it changes: sent again after no answer came, it is done once. */
function useKeyOf(typed: string): string {
  const [key, setKey] = useState(() => newId());
  useEffect(() => setKey(newId()), [typed]);
  return key;
}
