// The tenant's projects, which keys belong to, and the cost centers that pay for them.

import { Button } from "@mantine/core";
import { getRouteApi } from "@tanstack/react-router";
import { useState } from "react";
import { DataTable, type Column } from "../../../shared/components/data-table";
import { LoadMore, usePages } from "../../../shared/components/load-more";
import { Section } from "../../../shared/components/section";
import { Unanswered } from "../../../shared/components/unanswered";
import { StateShape } from "../../../shared/components/state";
import { api, answered } from "../../../shared/api";
import { NOBODY_KNOWS } from "../../../shared/format";
import { CloseCostCenter, type CostCenter } from "../../../shared/projects/close-cost-center";
import { CloseProject, CreateProject, type Project } from "../../../shared/projects/project-edits";
import { useSession } from "../../../shared/session";
import { zonedDay } from "../../../shared/zoned";
import { NameSearch } from "../../name-search";
import { OldFigures } from "../../old-figures";
import { ReadOnly } from "../../read-only";
import { useZone } from "../../../shared/zone";
import { useTenant } from "../../tenant";
import { ChargeTo, CreateCostCenter } from "./cost-center-edits";
import { projectSearchOf } from "./search-params";

type Opened = { what: "project" | "center" } | { what: "charge" | "close"; project: Project } | { what: "end"; center: CostCenter };
const route = getRouteApi("/projects");

export function ProjectsPage() {
  const { id, name } = useTenant();
  const { may } = useSession();
  const [opened, setOpened] = useState<Opened | null>(null);
  const zone = useZone().name;
  const close = () => setOpened(null);
  return (
    <>
      <header className="page-head">
        <div><h1 className="page-title">Projects</h1><p className="soft">What a key uses is booked to its project, and paid by the project’s cost center. Days are those of {zone}.</p></div>
        {may("projects.create") && <Button onClick={() => setOpened({ what: "project" })}>New project</Button>}
      </header>
      <OldFigures />
      <ReadOnly operation="projects.create" what="make, charge or close projects" />
      <ProjectList zone={zone} onOpen={setOpened} />
      <CostCenters zone={zone} onOpen={setOpened} />
      {opened?.what === "project" && <CreateProject tenant={id} called={name} onClose={close} />}
      {opened?.what === "center" && <CreateCostCenter tenant={id} called={name} onClose={close} />}
      {opened?.what === "charge" && <ChargeTo tenant={id} project={opened.project} zone={zone} onClose={close} />}
      {opened?.what === "end" && <CloseCostCenter tenant={id} center={opened.center} onClose={close} />}
      {opened?.what === "close" && <CloseProject tenant={id} project={opened.project} onClose={close} />}
    </>
  );
}

function ProjectList({ zone, onOpen }: { zone: string; onOpen: (opened: Opened) => void }) {
  const { id } = useTenant();
  const { may } = useSession();
  const { name = "" } = route.useSearch();
  const navigate = route.useNavigate();
  const { items, more, asked } = usePages<Project>(["projects", id, name], (after) => answered(api.GET("/api/tenants/{tenant}/projects", { params: { path: { tenant: id }, query: { name, after } } })));
  const columns: Column<Project>[] = [
    { title: "Project", cell: (project) => <b><bdi>{project.name}</bdi></b> },
    { title: "Cost center", cell: (project) => <bdi>{project.cost_center || NOBODY_KNOWS}</bdi> },
    { title: "State", phone: "end", cell: (project) => <OpenOrClosed closed={project.closed} /> },
    { title: "Since", right: true, cell: (project) => zonedDay(project.created, zone) },
  ];
  if (may("projects.close")) columns.push({ title: "", number: true, cell: (project) => <ProjectLinks of={project} onOpen={onOpen} /> });
  return (
    <Section title="All projects">
      <NameSearch what="projects" value={name} onChange={(text) => void navigate({ search: (was) => projectSearchOf({ ...was, name: text }), replace: true })} />
      {items ? (items.length ? <DataTable label="Projects" columns={columns} rows={items} keyOf={(project) => project.project} /> : <p className="soft">No project matches.</p>) : <Unanswered asked={asked} />}
      <LoadMore more={more} what="projects" />
    </Section>
  );
}

function OpenOrClosed({ closed }: { closed: string | null }) {
  return <span className="state"><StateShape state={closed ? "cancelled" : "well"} /> {closed ? "closed" : "open"}</span>;
}

function ProjectLinks({ of, onOpen }: { of: Project; onOpen: (opened: Opened) => void }) {
  const word = of.closed ? "Reopen" : "Close";
  return (
    <span className="row-links">
      <button type="button" className="link" aria-label={`Charge project ${of.name}`} onClick={() => onOpen({ what: "charge", project: of })}>Charge to…</button>
      <button type="button" className="link" aria-label={`${word} project ${of.name}`} onClick={() => onOpen({ what: "close", project: of })}>{word}…</button>
    </span>
  );
}

function CostCenters({ zone, onOpen }: { zone: string; onOpen: (opened: Opened) => void }) {
  const { id } = useTenant();
  const { may } = useSession();
  const { center = "" } = route.useSearch();
  const navigate = route.useNavigate();
  const { items, more, asked } = usePages<CostCenter>(["cost centers", id, center], (after) => answered(api.GET("/api/tenants/{tenant}/cost-centers", { params: { path: { tenant: id }, query: { name: center, after } } })));
  const columns: Column<CostCenter>[] = [
    { title: "Code", cell: (row) => <b><bdi>{row.code}</bdi></b> },
    { title: "Name", phone: "end", cell: (row) => <bdi>{row.name || NOBODY_KNOWS}</bdi> },
    { title: "State", cell: (row) => <OpenOrClosed closed={row.closed} /> },
    { title: "Since", right: true, cell: (row) => zonedDay(row.created, zone) },
  ];
  if (may("cost_centers.close")) {
    columns.push({ title: "", number: true, cell: (row) => <button type="button" className="link" aria-label={`${row.closed ? "Reopen" : "Close"} cost center ${row.code}`} onClick={() => onOpen({ what: "end", center: row })}>{row.closed ? "Reopen" : "Close"}…</button> });
  }
  const end = may("cost_centers.create") && <button type="button" className="link" onClick={() => onOpen({ what: "center" })}>New cost center…</button>;
  return (
    <Section title="Cost centers" note="by code" end={end}>
      {(center || more.has || (items?.length ?? 0) > 10) && <NameSearch what="cost centers" label="Code or name contains" value={center} onChange={(text) => void navigate({ search: (was) => projectSearchOf({ ...was, center: text }), replace: true })} />}
      {items ? (items.length ? <DataTable label="Cost centers" columns={columns} rows={items} keyOf={(row) => row.cost_center} /> : <p className="soft">{center ? "No cost center matches." : "No cost center yet: what is used is the tenant’s own."}</p>) : <Unanswered asked={asked} />}
      <LoadMore more={more} what="cost centers" />
    </Section>
  );
}
