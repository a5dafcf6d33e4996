// Said in a page's meta where the last figures stay, as its questions fail.

import { useQueryClient } from "@tanstack/react-query";
import { TryAgain } from "../shared/components/unanswered";
import { lasting } from "../shared/format";
import { useAge } from "../shared/live";
import { useOldFigures } from "../shared/old-figures";
import { useZone } from "../shared/zone";
import { zonedClock, zonedDay, zonedSecond } from "../shared/zoned";

/** Of which time the figures are; nothing where they are fresh. */
export function OldFigures() {
  const since = useOldFigures();
  return since === null ? null : <p className="meta"><FiguresOf since={since} /></p>;
}

export function FiguresOf({ since }: { since: number }) {
  const { name: zone } = useZone();
  const queries = useQueryClient();
  const age = useAge(since) ?? 0;
  const at = zonedDay(since, zone) === zonedDay(Date.now(), zone) ? zonedClock(since, zone) : zonedSecond(since, zone);
  return (
    <>
      <span className="bad" role="status">Figures of {at}, {lasting(age / 1000)} old.</span>{" "}
      <TryAgain ask={() => queries.refetchQueries({ type: "active" })} />
    </>
  );
}
