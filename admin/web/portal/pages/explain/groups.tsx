// The groups of a day or month by what each added, beside the time before; what cents do not add up to is a row.

import { SegmentedControl } from "@mantine/core";
import { Link, useNavigate } from "@tanstack/react-router";
import type { ReactNode } from "react";
import { centsOf, centsText, changeText, roundingOf } from "../../../shared/cents";
import { Section } from "../../../shared/components/section";
import { count, money } from "../../../shared/format";
import { FACETS, FACET_WORDS, type ChargeFacet, type ExplainSearch } from "./search";
import { changeOf, isMonth, TIMES, type Day, type Group } from "./words";

export function DayGroups({ day, search }: { day: Day; search: ExplainSearch }) {
  const navigate = useNavigate();
  const by = day.by as ChargeFacet;
  const time = isMonth(day) ? { month: day.time.name } : { day: day.time.name };
  const choices = FACETS.filter((value) => value !== (isMonth(day) ? "hour" : "day")).map((value) => ({ value, label: capital(FACET_WORDS[value].one) }));
  const fell = centsOf(day.total.cost) < centsOf(day.total.before);
  const note = `Compared with ${day.before.name}${isMonth(day) ? "" : ", the same weekday"}${day.over ? "" : " up to the same time"}. ${TIMES.has(by) ? `Each beside the ${FACET_WORDS[by].one} of the same name.` : `Sorted by what each ${fell ? "took off" : "added"}.`}`;
  return (
    <Section title={`By ${FACET_WORDS[by].one}`} note={note} end={<div className="explain-by"><SegmentedControl aria-label="By what" size="xs" value={by} data={choices} onChange={(value) => void navigate({ to: "/explain", search: { ...time, by: value as ChargeFacet } })} /></div>}>
      {day.groups.length ? <Groups day={day} search={search} time={time} /> : <p className="soft">Nothing was spent in either.</p>}
    </Section>
  );
}

function Groups({ day, search, time }: { day: Day; search: ExplainSearch; time: ExplainSearch }) {
  const by = day.by as ChargeFacet;
  const rest: Group = { of: "", name: "", sums: day.others };
  const unlisted = day.chosen && !day.groups.some((each) => each.of === day.chosen?.of) ? day.chosen : null;
  const rows = day.more ? [...day.groups, rest] : day.groups;
  const [before, cost] = (["before", "cost"] as const).map((name) => roundingOf(rows.map(({ sums }) => sums[name]), day.total[name])) as [bigint, bigint];
  const least = Math.min(0, ...day.groups.map((each) => Number(changeOf(each))));
  const above = Math.max(0, ...day.groups.map((each) => Number(changeOf(each))));
  const zero = above - least ? -least / (above - least) : 0;
  return (
    <table className="table data-table explain-groups" aria-label={`By ${FACET_WORDS[by].one}`}>
      <thead><tr>
        <th scope="col">{capital(FACET_WORDS[by].one)}</th><th scope="col" className="number narrow-hide">Requests</th><th scope="col" className="number narrow-hide">Tokens</th>
        <th scope="col" className="right">{day.before.name}</th><th scope="col" className="right">{day.time.name}</th><th scope="col" className="explain-bars">More or less</th><th scope="col" className="number">Change</th>
      </tr></thead>
      <tbody>
        {day.groups.map((each) => (
          <Row key={each.of} day={day} group={each} chosen={search.of === each.of} bar={<Bar change={Number(changeOf(each))} zero={zero} scale={above - least} />}>
            <Link to="/explain" search={by === "day" ? { day: `${day.time.name}-${each.of}` } : { ...time, by, of: each.of }} className="explain-name"><bdi><b>{each.name || `Of no ${FACET_WORDS[by].one}`}</b></bdi></Link>
          </Row>
        ))}
        {day.more > 0 && <Row day={day} group={rest} bar={null}><span className="soft">Other {count(day.more)} {FACET_WORDS[by][day.more === 1 ? "one" : "many"]}</span></Row>}
        {unlisted && <Row day={day} group={unlisted} chosen bar={null}><span className="soft">of which</span> <b>{unlisted.name || `of no ${FACET_WORDS[by].one}`}</b></Row>}
      </tbody>
      <tfoot>
        {(before !== 0n || cost !== 0n) && (
          <tr className="explain-rounding"><td>Rounding to cents</td><td className="narrow-hide" /><td className="narrow-hide" /><td className="number" data-label={day.before.name}>{before ? centsText(before) : ""}</td><td className="number end" data-label={day.time.name}>{cost ? centsText(cost) : ""}</td><td className="explain-bars" /><td className="number" data-label="Change">{cost - before ? changeText(cost - before) : ""}</td></tr>
        )}
        <Row day={day} group={{ of: "", name: "", sums: day.total }} bar={null}>All</Row>
      </tfoot>
    </table>
  );
}

function Row({ day, group, chosen = false, bar, children }: { day: Day; group: Group; chosen?: boolean; bar: ReactNode; children: ReactNode }) {
  const { sums } = group;
  return (
    <tr aria-current={chosen || undefined}>
      <td>{children}</td>
      <td className="number narrow-hide" data-label="Requests">{count(sums.requests)}</td>
      <td className="number narrow-hide" data-label="Tokens">{count(sums.tokens)}</td>
      <td className="number" data-label={day.before.name}>{money(sums.before)}</td>
      <td className="number end" data-label={day.time.name}>{money(sums.cost)}</td>
      <td className="explain-bars">{bar}</td>
      <td className="number" data-label="Change">{changeText(changeOf(group))}</td>
    </tr>
  );
}

/** Zero is where nothing changed: more goes right, hatched; less goes left. */
function Bar({ change, zero, scale }: { change: number; zero: number; scale: number }) {
  const width = scale ? Math.abs(change) / scale : 0;
  const left = change < 0 ? zero - width : zero;
  return (
    <span className="explain-track" aria-hidden>
      <span className="explain-zero" style={{ left: `${zero * 100}%` }} />
      {change !== 0 && <span className={change > 0 ? "explain-bar more" : "explain-bar less"} style={{ left: `${left * 100}%`, width: `${width * 100}%` }} />}
    </span>
  );
}

const capital = (text: string) => text.charAt(0).toUpperCase() + text.slice(1);
