// What the safety rules of a tenant do to a text.

import { Button, Modal, SegmentedControl, Textarea } from "@mantine/core";
import { useMutation } from "@tanstack/react-query";
import { useState } from "react";
import { api, answered, type Problem, type Schemas } from "../api";
import { DataTable } from "../components/data-table";
import { StateShape } from "../components/state";
import { count } from "../format";
import { sentence } from "../words";
import "./policy.css";

type Trial = Schemas["Trial"];

export function TryText({ tenant, of, onClose }: { tenant: string; of?: string; onClose: () => void }) {
  const [text, setText] = useState("");
  const [side, setSide] = useState("answer");
  const tried = useMutation<Schemas["TriedPolicy"], Problem>({
    mutationFn: () => answered(api.POST("/api/safety/try", { body: { tenant, text, as_prompt: side === "prompt" } })),
  });
  return (
    <Modal opened onClose={onClose} title={of ? `Try a text by the rules of ${of}` : "Try a text"} size={560} closeOnClickOutside={false}>
      <form className="edit" onSubmit={(event) => { event.preventDefault(); if (text) tried.mutate(); }}>
        <Textarea label="Text" description="It is kept nowhere." value={text} onChange={(event) => setText(event.currentTarget.value)} rows={4} error={tried.error ? sentence(tried.error.detail) : undefined} data-autofocus />
        <SegmentedControl aria-label="As" value={side} onChange={setSide} data={[{ value: "answer", label: "As an answer" }, { value: "prompt", label: "As a prompt" }]} transitionDuration={0} />
        {tried.data && <Outcome trial={tried.data.trial} />}
        <div className="edit-foot"><Button variant="default" onClick={onClose}>Close</Button><Button type="submit" loading={tried.isPending}>Try</Button></div>
      </form>
    </Modal>
  );
}

function Outcome({ trial }: { trial: Trial }) {
  const said = trial.block ? `Blocked by ${trial.block.category}.` : trial.matches.length ? "Let through, with what the rules make of it." : "Let through: no rule matches.";
  return (
    <div role="status">
      <p className="state"><StateShape state={trial.block ? "blocked" : "well"} /> <b>{said}</b></p>
      {trial.shown && <><p className="note">What is shown</p><p className="tried">{trial.shown}</p></>}
      {trial.matches.length > 0 && (
        <DataTable
          label="Matches"
          rows={trial.matches}
          keyOf={(match) => `${match.p} ${match.n} ${match.category}`}
          columns={[
            { title: "Rule", cell: (match) => <b>{match.category}</b> },
            { title: "Does", phone: "end", cell: (match) => match.action },
            { title: "Whose", cell: (match) => match.scope },
            { title: "Text", cell: (match) => match.text },
            { title: "At", number: true, cell: (match) => count(match.p) },
          ]}
        />
      )}
    </div>
  );
}
