// The month as a file: in which form, how large it is, and that its sum is the books'.

import { Button, Modal, Radio } from "@mantine/core";
import { useMediaQuery } from "@mantine/hooks";
import { useQuery } from "@tanstack/react-query";
import { useState } from "react";
import { api, answered, type Problem, type Schemas } from "../../../shared/api";
import { count, money } from "../../../shared/format";
import { sentence } from "../../../shared/words";
import { useTenant } from "../../tenant";
import { monthName, type Report } from "./words";
import "../../../shared/components/edit-dialog.css";

type Size = Schemas["ExportSize"];
type Format = Schemas["ExportFormat"];

const FORMATS: readonly [Format, string, string][] = [
  ["focus", "Every charge, FOCUS 1.2", "For cost management tools: a row for each hour, price and owner."],
  ["table", "Every charge, a plain table", "The same rows with names, for spreadsheets."],
  ["report", "This report", "The rows and columns that are shown, exact to nine decimals."],
];

export function ExportDialog({ report, asOf, onClose }: { report: Report; asOf: string | undefined; onClose: () => void }) {
  const { id } = useTenant();
  const phone = useMediaQuery("(width < 640px)") ?? false;
  const [format, setFormat] = useState<Format>("focus");
  const query = { format, month: report.month, rows: report.rows, columns: report.columns, ...(report.only ? { only: report.only } : {}), ...(asOf ? { as_of: asOf } : {}) };
  const { data: size, error } = useQuery<Size, Problem>({
    queryKey: ["chargeback-size", id, query],
    queryFn: () => answered(api.GET("/api/tenants/{tenant}/chargeback/export-size", { params: { path: { tenant: id }, query } })),
    retry: false,
  });
  const href = `/api/tenants/${encodeURIComponent(id)}/chargeback/export?${new URLSearchParams(query)}`;
  return (
    <Modal opened onClose={onClose} title={`Export ${monthName(report.month)}`} size={480} fullScreen={phone}>
      <div className="edit">
        <Radio.Group label="What it holds" value={format} onChange={(value) => setFormat(value as Format)}>
          {FORMATS.map(([value, label, description]) => <Radio key={value} value={value} label={label} description={description} className="export-choice" />)}
        </Radio.Group>
        <p aria-live="polite">{error ? sentence(error.detail) : size ? sizeOf(size) : <span className="skeleton" />}</p>
        <div className="edit-foot">
          <span className="note">A CSV file in UTF-8. It is made while it is sent.</span>
          <Button variant="default" onClick={onClose}>Cancel</Button>
          <Button component="a" href={href} download onClick={onClose}>Export</Button>
        </div>
      </div>
    </Modal>
  );
}

/** 44,916 rows, about 9 MB. Sum of the rows: 33,303.638076069 USD, the same as the closed month. */
function sizeOf({ rows, about, bytes, total, closed }: Size): string {
  const size = about ? `About ${count(rows)} rows, ${written(bytes)}.` : `${count(rows)} ${rows === 1 ? "row" : "rows"}, about ${written(bytes)}.`;
  return `${size} Sum of the rows: ${money(total, 9)} USD${closed ? ", the same as the closed month" : " so far: the month is not closed"}.`;
}

function written(bytes: number): string {
  if (bytes < 1e6) return `${count(Math.max(1, Math.round(bytes / 1e3)))} kB`;
  return bytes < 1e9 ? `${count(Math.round(bytes / 1e6))} MB` : `${(bytes / 1e9).toFixed(1)} GB`;
}
