// An answer that went on behind its length limit: its parts are one article, parsed as one text. Pure.

/** @typedef {import("./answer_view.js").Shown} Shown */

/**
 * What is shown of two parts: the second one's state with the texts of both.
 * @param {Shown | null} before
 * @param {Shown} answer
 * @returns {Shown}
 */
export function joined(before, answer) {
  if (before === null) return answer;
  const { id, status, reason, queue, error, cancelling, verified, paused, movedBecause, safety } = answer;
  const behind = Array.from(before.text).length; // places count code points
  const flags = (answer.flags ?? []).map((flag) => ({ ...flag, p: flag.p + behind }));
  return {
    ...{ id, status, reason, queue, error, cancelling, verified, paused, movedBecause, safety },
    text: before.text + answer.text,
    flags: [...(before.flags ?? []), ...flags],
    usage: sum(before.usage, answer.usage),
    cost: before.cost && answer.cost ? { ...answer.cost, nano: before.cost.nano + answer.cost.nano } : answer.cost,
  };
}

/**
 * What both parts used; before the second one's end nothing yet.
 * @param {Shown["usage"]} before
 * @param {Shown["usage"]} after
 */
function sum(before, after) {
  if (!before || !after) return after;
  const { input, output, total } = before;
  return { input: input + after.input, output: output + after.output, total: total + after.total };
}

/** What is said where the model cannot read an answer and go on with it. */
export const FULL = "This answer fills what the model can read. Ask a new question, or start a new chat.";

/**
 * Whether going on was refused as the model cannot read what is there already: it will be refused again.
 * @param {Pick<Shown, "error">} answer
 * @param {unknown} continues what was to go on; none: a question was refused
 */
export function refusedAsFull({ error }, continues) {
  return Boolean(continues) && error?.code === "too_large";
}

/**
 * Whether no turn could be dropped to go on with an answer that was cut, and it has no room as it is.
 * @param {Shown} part the newest
 */
export function isFull({ context, usage }) {
  return Boolean(context && usage && context.kept <= 1 && usage.output > context.room);
}

/**
 * Where an answer was cut.
 * @param {Shown["usage"]} usage of the part that was cut
 * @param {boolean} full it cannot go on
 */
export function cutText(usage, full) {
  const where = usage ? `, ${usage.output.toLocaleString("en")} tokens` : "";
  return `Cut off at its length limit${where}.${full ? ` ${FULL}` : ""}`;
}
