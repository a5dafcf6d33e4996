// A tenant's projects and the cost center of each, and the cost centers.

import { useState } from "react";
import { DataTable, type Column } from "../../../shared/components/data-table";
import { LoadMore, usePages } from "../../../shared/components/load-more";
import { Section } from "../../../shared/components/section";
import { StateShape } from "../../../shared/components/state";
import { api, answered } from "../../../shared/api";
import { NOBODY_KNOWS } from "../../../shared/format";
import { CloseCostCenter, type CostCenter } from "../../../shared/projects/close-cost-center";
import { CloseProject, CreateProject, type Project } from "../../../shared/projects/project-edits";
import { useSession } from "../../../shared/session";
import { date } from "../../../shared/limits/limit-words";

export function Projects({ tenant }: { tenant: string }) {
  const { may } = useSession();
  if (!may("projects.list")) return null;
  return (
    <>
      <ProjectList tenant={tenant} />
      <CostCenters tenant={tenant} />
    </>
  );
}

function ProjectList({ tenant }: { tenant: string }) {
  const { may } = useSession();
  const [opened, setOpened] = useState<Project | "new" | null>(null);
  const { items, error, more } = usePages<Project>(["projects", tenant], (after) => answered(api.GET("/api/tenants/{tenant}/projects", { params: { path: { tenant }, query: { after, limit: 20 } } })));
  const columns: Column<Project>[] = [
    { title: "Project", cell: (project) => <b>{project.name}</b> },
    { title: "Cost center", cell: (project) => project.cost_center || NOBODY_KNOWS },
    { title: "State", phone: "end", cell: (project) => <OpenOrClosed closed={project.closed} /> },
    { title: "Since", right: true, cell: (project) => date(project.created) },
    { title: "", number: true, cell: (project) => may(project.closed ? "projects.reopen" : "projects.close") && <button type="button" className="link" aria-label={`${project.closed ? "Reopen" : "Close"} project ${project.name}`} onClick={() => setOpened(project)}>{project.closed ? "Reopen…" : "Close…"}</button> },
  ];
  const end = may("projects.create") && <button type="button" className="link" onClick={() => setOpened("new")}>Create project…</button>;
  return (
    <Section title="Projects" end={end}>
      {items ? <DataTable label="Projects" columns={columns} rows={items} keyOf={(project) => project.project} /> : error ? <p className="soft">{error.detail}</p> : <span className="skeleton" />}
      <LoadMore more={more} what="projects" />
      {opened === "new" && <CreateProject tenant={tenant} onClose={() => setOpened(null)} />}
      {opened && opened !== "new" && <CloseProject tenant={tenant} project={opened} onClose={() => setOpened(null)} />}
    </Section>
  );
}

function CostCenters({ tenant }: { tenant: string }) {
  const { may } = useSession();
  const [opened, setOpened] = useState<CostCenter | null>(null);
  const { items, error, more } = usePages<CostCenter>(["cost centers", tenant], (after) => answered(api.GET("/api/tenants/{tenant}/cost-centers", { params: { path: { tenant }, query: { after, limit: 20 } } })));
  const columns: Column<CostCenter>[] = [
    { title: "Cost center", cell: (center) => <b>{center.code}</b> },
    { title: "Name", cell: (center) => center.name || NOBODY_KNOWS },
    { title: "State", phone: "end", cell: (center) => <OpenOrClosed closed={center.closed} /> },
    { title: "Since", right: true, cell: (center) => date(center.created) },
    { title: "", number: true, cell: (center) => may(center.closed ? "cost_centers.reopen" : "cost_centers.close") && <button type="button" className="link" aria-label={`${center.closed ? "Reopen" : "Close"} cost center ${center.code}`} onClick={() => setOpened(center)}>{center.closed ? "Reopen…" : "Close…"}</button> },
  ];
  if (items?.length === 0) return null;
  return (
    <Section title="Cost centers">
      {items ? <DataTable label="Cost centers" columns={columns} rows={items} keyOf={(center) => center.cost_center} /> : error ? <p className="soft">{error.detail}</p> : <span className="skeleton" />}
      <LoadMore more={more} what="cost centers" />
      {opened && <CloseCostCenter tenant={tenant} center={opened} onClose={() => setOpened(null)} />}
    </Section>
  );
}

function OpenOrClosed({ closed }: { closed: string | null }) {
  return <span className="state"><StateShape state={closed ? "cancelled" : "well"} /> {closed ? "closed" : "open"}</span>;
}
