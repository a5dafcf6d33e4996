// A tenant's projects and the cost center of each.

import { useState } from "react";
import { DataTable, type Column } from "../../../shared/components/data-table";
import { LoadMore, usePages } from "../../../shared/components/load-more";
import { Section } from "../../../shared/components/section";
import { StateShape } from "../../../shared/components/state";
import { api, answered } from "../../../shared/api";
import { NOBODY_KNOWS } from "../../../shared/format";
import { CloseProject, CreateProject, type Project } from "../../../shared/projects/project-edits";
import { useSession } from "../../../shared/session";
import { date } from "../../../shared/limits/limit-words";

export function Projects({ tenant }: { tenant: string }) {
  const { may } = useSession();
  return may("projects.list") ? <ProjectList tenant={tenant} /> : null;
}

function ProjectList({ tenant }: { tenant: string }) {
  const { may } = useSession();
  const [opened, setOpened] = useState<Project | "new" | null>(null);
  const { items, error, more } = usePages<Project>(["projects", tenant], (after) => answered(api.GET("/api/tenants/{tenant}/projects", { params: { path: { tenant }, query: { after, limit: 20 } } })));
  const columns: Column<Project>[] = [
    { title: "Project", cell: (project) => <b>{project.name}</b> },
    { title: "Cost center", cell: (project) => project.cost_center || NOBODY_KNOWS },
    { title: "State", phone: "end", cell: (project) => <span className="state"><StateShape state={project.closed ? "cancelled" : "well"} /> {project.closed ? "closed" : "open"}</span> },
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
