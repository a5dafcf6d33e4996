// When something of a list happened: of today its time, else its day too; whole on hover. In a time zone.

/** `minutes`: without its second. */
export function RowTime({ ms, zone, minutes = false }: { ms: number; zone: string; minutes?: boolean }) {
  const [day, time] = dayAndTime(ms, zone);
  const [today] = dayAndTime(Date.now(), zone);
  const said = day === today ? (minutes ? time.slice(0, 5) : time) : `${day.slice(5)} ${time.slice(0, 5)}`;
  return <time dateTime={new Date(ms).toISOString()} title={`${day} ${time} ${zone}`}>{said}</time>;
}

/** Date and time of day of an instant as clocks of a zone show it. */
export function dayAndTime(ms: number, zone: string): [string, string] {
  const parts = formatOf(zone).formatToParts(ms);
  const part = (type: string) => parts.find((each) => each.type === type)?.value ?? "";
  return [`${part("year")}-${part("month")}-${part("day")}`, `${part("hour")}:${part("minute")}:${part("second")}`];
}

const formats = new Map<string, Intl.DateTimeFormat>();

function formatOf(zone: string): Intl.DateTimeFormat {
  const known = formats.get(zone);
  if (known) return known;
  const two = "2-digit" as const;
  const made = new Intl.DateTimeFormat("en", { timeZone: zone, year: "numeric", month: two, day: two, hour: two, minute: two, second: two, hourCycle: "h23" });
  formats.set(zone, made);
  return made;
}
