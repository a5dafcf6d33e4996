// When something of a list happened: of today its time, else its day too; whole on hover. In a time zone.

import { dayAndTime } from "../zoned";

/** `minutes`: without its second. */
export function RowTime({ ms, zone, minutes = false }: { ms: number; zone: string; minutes?: boolean }) {
  const [day, time] = dayAndTime(ms, zone);
  const [today] = dayAndTime(Date.now(), zone);
  const said = day === today ? (minutes ? time.slice(0, 5) : time) : `${day.slice(5)} ${time.slice(0, 5)}`;
  return <time dateTime={new Date(ms).toISOString()} title={`${day} ${time} ${zone}`}>{said}</time>;
}
