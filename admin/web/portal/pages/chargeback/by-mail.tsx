// Reports that are sent by mail: a link behind sign-in, no numbers, to members who may see money.

import { Button, Modal, NativeSelect } from "@mantine/core";
import { useMediaQuery } from "@mantine/hooks";
import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { useState, type ReactNode } from "react";
import { api, answered, type Problem, type Schemas } from "../../../shared/api";
import { DataTable, type Column } from "../../../shared/components/data-table";
import { Section } from "../../../shared/components/section";
import { Unanswered } from "../../../shared/components/unanswered";
import { count } from "../../../shared/format";
import { useSession } from "../../../shared/session";
import { sentence } from "../../../shared/words";
import { useZone } from "../../../shared/zone";
import { zonedDay } from "../../../shared/zoned";
import { useTenant } from "../../tenant";
import { factName, type Report } from "./words";
import "../../../shared/components/edit-dialog.css";

type Schedule = Schemas["ScheduleFacts"];
type Every = Schemas["ReportEvery"];

const WHEN: Record<Every, string> = { month: "Day after close, 07:00", week: "Mondays, 07:00" };

export function SentByMail() {
  const { id } = useTenant();
  const { may } = useSession();
  const zone = useZone().name;
  const [leaving, setLeaving] = useState<Schedule | null>(null);
  const asked = useQuery({
    queryKey: ["chargeback-schedules", id],
    queryFn: () => answered(api.GET("/api/tenants/{tenant}/chargeback/schedules", { params: { path: { tenant: id } } })),
    retry: false,
  });
  const schedules = asked.data?.items;
  const columns: Column<Schedule>[] = [
    { title: "Report", cell: (each) => <b>{nameOf(each)}</b> },
    { title: "When", cell: ({ every }) => WHEN[every] },
    { title: "To", cell: ({ people }) => (people === 1 ? "1 person" : `${count(people)} people`) },
    { title: "Last", right: true, cell: ({ last }) => (last ? zonedDay(last, zone) : "not yet") },
    ...(may("chargeback.unschedule") ? [{ title: "", right: true, phone: "end", cell: (each: Schedule) => <button type="button" className="link" aria-label={`Stop sending ${nameOf(each)}…`} onClick={() => setLeaving(each)}>Stop…</button> } as const] : []),
  ];
  return (
    <Section title="Sent by mail" note="The mail holds a link behind sign-in, no numbers.">
      {schedules === undefined ? <Unanswered asked={asked} /> : schedules.length === 0 ? <p className="soft">No report is sent by mail.</p> : <DataTable label="Sent by mail" columns={columns} rows={schedules} keyOf={({ schedule }) => schedule} />}
      {leaving && <Stop of={leaving} onClose={() => setLeaving(null)} />}
    </Section>
  );
}

const nameOf = ({ rows, columns, only }: { rows: string; columns: string; only: string }) => `${factName(rows)} × ${factName(columns).toLowerCase()}${only ? `, only ${only}` : ""}`;

export function MailDialog({ report, onClose }: { report: Report; onClose: () => void }) {
  const { id } = useTenant();
  const [every, setEvery] = useState<Every>("month");
  const { rows, columns, only } = report;
  const body = { every, rows, columns, only, to: [] };
  const { send, error, busy } = useCall(() => answered(api.POST("/api/tenants/{tenant}/chargeback/schedules", { params: { path: { tenant: id } }, body })), onClose);
  return (
    <Dialog title="Send by mail" onClose={onClose} error={error}>
      <p><b>{nameOf(report)}</b>, to all members who may see money at that time.</p>
      <NativeSelect label="When" value={every} onChange={(event) => setEvery(event.currentTarget.value as Every)} data={Object.entries(WHEN).map(([value, label]) => ({ value, label }))} />
      <Foot note="A link behind sign-in, no numbers." onClose={onClose}><Button loading={busy} onClick={send}>Send by mail</Button></Foot>
    </Dialog>
  );
}

function Stop({ of, onClose }: { of: Schedule; onClose: () => void }) {
  const { id } = useTenant();
  const { send, error, busy } = useCall(() => answered(api.DELETE("/api/tenants/{tenant}/chargeback/schedules/{schedule}", { params: { path: { tenant: id, schedule: of.schedule } }, body: {} })), onClose);
  return (
    <Dialog title={`Stop sending ${nameOf(of)}`} onClose={onClose} error={error}>
      <p>Nobody gets this mail any more. The report stays where it is.</p>
      <Foot note="" onClose={onClose}><Button loading={busy} onClick={send}>Stop sending</Button></Foot>
    </Dialog>
  );
}

function useCall(call: () => Promise<Schedule>, done: () => void) {
  const queries = useQueryClient();
  const { mutate, error, isPending } = useMutation<Schedule, Problem>({
    mutationFn: call,
    onSuccess: () => {
      void queries.invalidateQueries({ queryKey: ["chargeback-schedules"] });
      done();
    },
  });
  return { send: () => mutate(), error, busy: isPending };
}

function Dialog({ title, error, onClose, children }: { title: string; error: Problem | null; onClose: () => void; children: ReactNode }) {
  const phone = useMediaQuery("(width < 640px)") ?? false;
  return (
    <Modal opened onClose={onClose} title={title} size={480} fullScreen={phone}>
      <div className="edit">
        {children}
        {error && <p role="alert" className="edit-refused">{sentence(error.detail)}</p>}
      </div>
    </Modal>
  );
}

const Foot = ({ note, onClose, children }: { note: string; onClose: () => void; children: ReactNode }) => <div className="edit-foot"><span className="note">{note}</span><Button variant="default" onClick={onClose}>Cancel</Button>{children}</div>;
