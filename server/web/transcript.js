// The messages of the open chat: drawn in each second frame at most, scrolled along while the reader is at the end.

import { AnswerView, flash } from "./answer_view.js";
import { copyWithSources, sourcesOf } from "./chips.js";
import { restoreCodeWrap, toggleCodeWrap } from "./code_wrap.js";
import { byId, copyText } from "./dom.js";
import { QuestionView } from "./question_view.js";
import { ReadingPlace } from "./reading_place.js";
import { isOwn } from "./summary.js";

/** @typedef {import("./answer_view.js").Shown} Shown */

const NEAR_END_PX = 80;
const PACE_MS = 25; // from one drawing to the next: dense text is drawn each second frame, by half the work

export class Transcript {
  /**
   * @param {(content: string) => void} onRetry ask again what an answer was the answer to
   * @param {(content: string) => void} onEdit ask it in other words
   * @param {(view: AnswerView, id: string) => void} onGoOn go on with an answer that was cut
   */
  constructor(onRetry, onEdit, onGoOn) {
    this.#onRetry = onRetry;
    this.#onEdit = onEdit;
    this.#onGoOn = onGoOn;
    this.#scroller.addEventListener("scroll", () => this.#scrolled(), { passive: true });
    byId("skip").addEventListener("click", () => this.#scroller.focus());
    this.#toLatest.addEventListener("click", () => this.toEnd(true));
    restoreCodeWrap();
    const grown = new ResizeObserver(() => this.#laidOut());
    for (const each of [this.#scroller, this.#log]) grown.observe(each);
    this.#log.addEventListener("click", (event) => codePressed(event));
    this.#log.addEventListener("copy", (event) => copyWithSources(event));
  }

  #onRetry;
  #onEdit;
  #onGoOn;
  #scroller = byId("scroller");
  #log = byId("log");
  #toLatest = byId("to-latest");
  #following = true;
  /** How far down the view was. */
  #top = 0;
  #place = new ReadingPlace(this.#scroller, this.#log);
  /** @type {Map<AnswerView, Shown>} answers that changed since the last were drawn */
  #changed = new Map();
  /** When that was. */
  #drawn = -Infinity;

  /** Answers on their way come by a connection that holds. */
  connected = true;

  /** Show nothing. */
  clear() {
    this.#changed.clear();
    this.#log.replaceChildren();
    this.#following = true;
    this.#top = 0;
    this.#place.leave();
    this.#offer(false);
  }

  get empty() {
    return this.#log.childElementCount === 0;
  }

  /**
   * What the user said.
   * @param {string} content
   * @param {import("/web/client/answer.js").SafetyFlag[]} [flags]
   */
  addQuestion(content, flags = []) {
    const view = new QuestionView(content, flags);
    this.#log.append(view.element);
    return view;
  }

  /**
   * An answer to `content`; the answers before it lose their retry.
   * @param {string} content
   * @returns {AnswerView}
   */
  addAnswer(content) {
    const asked = { retry: () => this.#onRetry(content), edit: () => this.#onEdit(content) };
    const view = new AnswerView({ ...asked, goOn: this.#onGoOn }, isOwn(content));
    this.#log.append(view.element);
    return view;
  }

  /**
   * What the server has of a chat.
   * @param {import("./api.js").Message[]} messages
   * @param {(id: string, view: AnswerView) => void} onRunning an answer is on its way still
   */
  addHistory(messages, onRunning) {
    let question = "";
    let view = /** @type {AnswerView | null} */ (null);
    for (const message of messages) {
      if (message.role === "user") {
        question = message.content;
        this.addQuestion(question, message.flags);
      } else if (message.role === "assistant") {
        if (message.continues && view) view.goesOn();
        else view = this.addAnswer(question);
        if (message.status === "running") onRunning(message.request_id, view);
        else view.show({ ...message, id: message.request_id, text: message.content, status: "ended" });
      }
    }
  }

  /**
   * A turn that is being sent.
   * @param {string} content
   */
  addTurn(content) {
    const turn = { question: this.addQuestion(content), view: this.addAnswer(content) };
    this.changed(turn.view, { text: "", status: "sending", reason: null, usage: null, cost: null });
    this.toEnd();
    return turn;
  }

  /** The last turn was refused: the server has nothing of it. */
  get refused() {
    return this.#log.lastElementChild?.classList.contains("refused") ?? false;
  }

  /** Take back the last question and its answer. */
  dropLastTurn() {
    this.#log.lastElementChild?.remove();
    this.#log.lastElementChild?.remove();
  }

  /**
   * An answer changed: draw it in the next frame, or in the one after where one was drawn just now.
   * @param {AnswerView} view
   * @param {Shown} answer
   */
  changed(view, answer) {
    if (this.#changed.size === 0) this.#soon();
    this.#changed.set(view, answer);
  }

  /**
   * Go to the end and stay there while text arrives.
   * @param {boolean} [smoothly]
   */
  toEnd(smoothly = false) {
    this.#following = true;
    this.#offer(false);
    const smooth = smoothly && !matchMedia("(prefers-reduced-motion: reduce)").matches;
    this.#scroller.scrollTo({ top: this.#scroller.scrollHeight, behavior: smooth ? "smooth" : "instant" });
  }

  #soon() {
    const draw = () => requestAnimationFrame(() => this.#draw());
    const wait = this.#drawn + PACE_MS - performance.now();
    if (wait > 0) setTimeout(draw, wait);
    else draw();
  }

  /** It reads no size: that is known once the frame is laid out. */
  #draw() {
    this.#drawn = performance.now();
    for (const [view, answer] of this.#changed) view.show(answer, this.connected);
    this.#changed.clear();
  }

  /** It has another size, or its content. */
  #laidOut() {
    if (this.#following) return this.toEnd();
    this.#place.hold();
    this.#offer(this.#distance() >= NEAR_END_PX);
  }

  /** Who scrolls up stays there; text that came since the page last went to its end is no scrolling. */
  #scrolled() {
    const { scrollTop } = this.#scroller;
    const up = scrollTop < this.#top;
    this.#top = scrollTop;
    this.#following = this.#distance() < NEAR_END_PX || (this.#following && !up);
    this.#offer(!this.#following);
    if (this.#following) this.#place.leave();
    else this.#place.hold();
  }

  /** Offer to go to the end. @param {boolean} offered */
  #offer(offered) {
    if (this.#toLatest.hidden === offered) this.#toLatest.hidden = !offered; // to set it is work, whatever it was
  }

  #distance() {
    const { scrollHeight, scrollTop, clientHeight } = this.#scroller;
    return scrollHeight - scrollTop - clientHeight;
  }
}

/**
 * A turn of a chat that is not open.
 * @param {string} content
 */
export function unseenTurn(content) {
  return { question: new QuestionView(content, []), view: new AnswerView({ retry() {}, edit() {}, goOn() {} }) };
}

/**
 * The buttons of a block of code: whether lines wrap holds for all of them, and is remembered.
 * @param {Event} event
 */
function codePressed({ target }) {
  const pressed = target instanceof Element ? target.closest("button.copy-code, button.wrap-code") : null;
  if (!(pressed instanceof HTMLButtonElement)) return;
  if (pressed.classList.contains("wrap-code")) return toggleCodeWrap();
  const code = pressed.closest(".code")?.querySelector("pre");
  if (code) void copyText(sourcesOf(code)).then(() => flash(pressed, "Copied"));
}
