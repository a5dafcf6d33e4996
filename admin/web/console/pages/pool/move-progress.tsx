// A tenant's move while it goes on: how far it is, a row for each stream, and how it ended.

import { DataTable, type Column } from "../../../shared/components/data-table";
import { Meter } from "../../../shared/components/meter";
import { StateShape } from "../../../shared/components/state";
import { useRun } from "../../../shared/components/stop-run";
import { decimal, NOBODY_KNOWS } from "../../../shared/format";
import { sentence } from "../../../shared/words";
import { endOf, headOf, shortId, streamState, type Moved, type Stream } from "./move-words";
import "./move-tenant.css";

export function MoveProgress({ run, from, to }: { run: string; from: string; to: string }) {
  const { data, error } = useRun(run);
  const moved = (data?.answer ?? null) as Moved | null;
  if (!data || (!moved && data.state === "running")) return <p role="status" className="soft">{error ? sentence(error.detail) : "New requests go there. It begins…"}</p>;
  const [head, rest] = moved ? headOf(moved) : ["Nothing is told of it", ""];
  const share = moved?.streams_to_move ? moved.streams_moved / moved.streams_to_move : data.state === "running" ? 0 : 1;
  const columns: Column<Stream>[] = [
    { title: "Request", cell: (row) => <span className="move-id" title={row.id}>{shortId(row.id)}</span> },
    { title: "State", cell: (row) => <State row={row} from={from} to={to} /> },
    { title: "Pause, s", number: true, phone: "end", cell: (row) => (row.pause_ms === null ? NOBODY_KNOWS : decimal(row.pause_ms / 1000)) },
  ];
  return (
    <div className="move-progress" role="group" aria-label="Progress">
      <p className="move-head" role="status"><b>{head}</b> <span className={moved?.lost || moved?.doubled ? "bad" : "soft"}>{rest}</span></p>
      <Meter share={share} label="Streams moved" tone="calm" />
      {moved && moved.streams.length > 0 && (
        <div className="move-streams" role="region" aria-label="Streams" tabIndex={0}><DataTable label="Streams" columns={columns} rows={moved.streams} keyOf={(row) => row.id} /></div>
      )}
      {error && <p role="alert" className="warn">As last known: {sentence(error.detail)}</p>}
      {data.problem && <p role="alert" className="bad">{sentence(data.problem.detail)}</p>}
      {data.state !== "running" && <p className="move-end">{endOf(data.state, moved)}</p>}
    </div>
  );
}

function State({ row, from, to }: { row: Stream; from: string; to: string }) {
  const [shape, words] = streamState(row, from, to);
  return <span className="move-state"><StateShape state={shape} /> {words}</span>;
}
