// What the console's sections are built of: DOM calls only, no markup from data.

/** @typedef {{text: string, number?: boolean, tone?: string}} Cell */

/**
 * @param {string} tag
 * @param {string} [className]
 * @param {string} [text]
 */
export function make(tag, className = "", text = "") {
  const node = document.createElement(tag);
  if (className) node.className = className;
  if (text) node.textContent = text;
  return node;
}

/**
 * @param {string} title
 * @param {string[]} heads
 * @param {Cell[][]} rows
 * @param {string} empty
 */
export function table(title, heads, rows, empty) {
  const section = make("section");
  section.append(make("h2", "", title));
  const box = make("div", "table");
  box.tabIndex = 0;
  box.setAttribute("role", "region");
  box.setAttribute("aria-label", title);
  if (rows.length === 0) {
    box.append(make("p", "empty", empty));
  } else {
    const element = make("table");
    const head = make("tr");
    heads.forEach((text, at) => {
      const cell = make("th", rows[0]?.[at]?.number ? "number" : "", text);
      cell.setAttribute("scope", "col");
      head.append(cell);
    });
    const headGroup = make("thead");
    headGroup.append(head);
    const body = make("tbody");
    for (const row of rows) {
      const line = make("tr");
      for (const cell of row) line.append(make("td", `${cell.number ? "number" : ""} ${cell.tone ?? ""}`.trim(), cell.text));
      body.append(line);
    }
    element.append(headGroup, body);
    box.append(element);
  }
  section.append(box);
  return section;
}

/** The whole amount, at least to the cent; of text, as sums that no float holds. @param {number | string} nano @param {string} currency */
export function exact(nano, currency) {
  const [sign, whole] = String(nano).startsWith("-") ? ["-", String(nano).slice(1)] : ["", String(nano)];
  const digits = whole.padStart(10, "0");
  const fraction = digits.slice(-9).replace(/0+$/, "").padEnd(2, "0");
  return `${sign}${digits.slice(0, -9)}.${fraction} ${currency.toUpperCase()}`;
}
