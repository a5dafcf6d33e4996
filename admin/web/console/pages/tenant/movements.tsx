// What came into a tenant's wallet and went out of it, with the balance after each, the last first.

import { Button, Modal } from "@mantine/core";
import { useMediaQuery } from "@mantine/hooks";
import { keepPreviousData, useQuery } from "@tanstack/react-query";
import { useState } from "react";
import { DataTable, type Column } from "../../../shared/components/data-table";
import { api, answered, type Problem, type Schemas } from "../../../shared/api";
import { count, money, moment } from "../../../shared/format";
import { shortened } from "../../../shared/changes";
import { sentence } from "../../../shared/words";

type Movement = Schemas["MovementFacts"];
const [FIRST, MOST] = [20, 10_000];

const COLUMNS: Column<Movement>[] = [
  { title: "Time, UTC", cell: (row) => <span className="nowrap tabular">{moment(row.time).slice(0, 19)}</span> },
  { title: "What", cell: (row) => <span title={row.cause}>{row.kind.replaceAll("_", " ")} <span className="soft">{shortened(row.cause)}</span></span> },
  { title: "Amount", number: true, phone: "end", cell: (row) => money(row.amount, 9) },
  { title: "Balance", number: true, cell: (row) => money(row.balance, 9) },
];

export function Movements({ tenant, name, onClose }: { tenant: string; name: string; onClose: () => void }) {
  const phone = useMediaQuery("(width < 640px)") ?? false;
  const [last, setLast] = useState(FIRST);
  const { data, error, isFetching } = useQuery<Schemas["MovementsShown"], Problem>({
    queryKey: ["movements", tenant, last],
    queryFn: () => answered(api.GET("/api/tenants/{tenant}/wallet/history", { params: { path: { tenant }, query: { last } } })),
    placeholderData: keepPreviousData,
    retry: false,
  });
  const rows = (data?.movements ?? []).map((row, index) => ({ ...row, index })).toReversed();
  const more = rows.length >= last && last < MOST;
  return (
    <Modal opened onClose={onClose} title={`Wallet of ${name}`} size={720} fullScreen={phone}>
      {error ? <p className="soft">{sentence(error.detail)}</p> : !data ? <span className="skeleton" /> : rows.length ? <DataTable label="Movements" columns={COLUMNS} rows={rows} keyOf={(row) => String(row.index)} /> : <p className="soft">Nothing moved yet.</p>}
      {more && <p className="load-more"><Button variant="default" loading={isFetching} onClick={() => setLast(Math.min(MOST, last * 10))}>Show {count(Math.min(MOST, last * 10))}</Button></p>}
      {last === MOST && rows.length === MOST && <p className="note">Older ones: <code>parley wallets history</code>.</p>}
    </Modal>
  );
}
