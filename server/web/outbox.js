// Sends questions: at once, or as soon as it can be; again; and takes back what is not let in.

import { ProtocolError } from "/web/client/client.js";
import { failed } from "./answer_view.js";
import { behind } from "./asked.js";
import { cleaned } from "./clean.js";
import { byId } from "./dom.js";
import { NEW } from "./drafts.js";
import { mustChange } from "./refusal_words.js";
import { isOwn } from "./summary.js";
import { unseenTurn } from "./transcript.js";
import { errorText, titleOf } from "./words.js";

/** @typedef {import("/web/client/answer.js").Answer} Answer */
/** @typedef {import("./answer_view.js").AnswerView} AnswerView */
/**
 * @typedef {object} Desk what is open
 * @property {() => string} chat by which its draft is kept
 * @property {() => number} opened counts the chats opened
 * @property {() => boolean} connected a turn would go out
 * @property {(chat: string) => boolean} running an answer runs in a chat
 * @property {(id: string) => void} begin the new chat has an id
 * @property {(id: string) => Promise<void>} again show the open chat as the server has it by now
 * @property {() => void} leave the open chat is none: a new one begins with the next question
 * @property {(answer: Answer, conversation: string, turn: {question: import("./question_view.js").QuestionView,
 *   view: AnswerView | null}) => void} follow
 * @property {() => void} changed
 * @property {() => {system?: string}} first what the next turn brings, as the first of a new chat
 */

/** Ends of an answer after which nobody would ask on unasked. */
const ENDS_ALL = new Set(["error", "blocked", "budget"]);
const AGAIN = "What you wrote is a draft again.";

export class Outbox {
  /**
   * @param {import("/web/client/client.js").Client} client
   * @param {import("./transcript.js").Transcript} transcript
   * @param {import("./composer.js").Composer} composer
   * @param {import("./sidebar.js").Sidebar} sidebar
   * @param {import("./drafts.js").Drafts} drafts
   * @param {Desk} desk
   */
  constructor(client, transcript, composer, sidebar, drafts, desk) {
    this.#client = client;
    this.#transcript = transcript;
    this.#composer = composer;
    this.#sidebar = sidebar;
    this.#drafts = drafts;
    this.#desk = desk;
  }

  #client;
  #transcript;
  #composer;
  #sidebar;
  #drafts;
  #desk;
  /** What is to be sent as soon as it can be, by chat: the draft, or its begin. @type {Map<string, string>} */
  #waiting = new Map();
  /** A turn of this opening is on its way to get an id. */
  sending = 0;

  /** @param {string} chat */
  waits(chat) {
    return this.#waiting.has(chat);
  }

  /**
   * What is written in a chat is to be sent as soon as it can be, as it is now.
   * @param {string} chat
   * @param {string} asked
   */
  wait(chat, asked) {
    this.#waiting.set(chat, asked);
    this.#desk.changed();
    this.sendWaiting();
  }

  /**
   * What waits in a chat is a draft again.
   * @param {string} chat
   * @returns {boolean} something waited
   */
  takeBack(chat) {
    if (!this.#waiting.delete(chat)) return false;
    this.#desk.changed();
    if (chat === this.#desk.chat()) this.#composer.focus();
    return true;
  }

  /**
   * The draft of a chat is another text: what waits is a draft again, unless that was only written on.
   * @param {string} chat
   * @param {string} text
   */
  written(chat, text) {
    if (behind(text, this.#waiting.get(chat) ?? "") === null && this.takeBack(chat)) byId("announcer").textContent = AGAIN;
  }

  /** Send what waits for nothing more. */
  sendWaiting() {
    for (const [chat, asked] of [...this.#waiting]) {
      if (!this.#desk.connected() || this.#desk.running(chat)) continue;
      this.#waiting.delete(chat);
      const open = chat === this.#desk.chat();
      const content = open ? this.#composer.take(asked) : cleaned(asked).text.trim();
      const rest = open ? this.#composer.text : behind(this.#drafts.text(chat), asked);
      if (content !== "") void this.send(content, chat, rest ?? "");
    }
  }

  /**
   * @param {string} content
   * @param {string} [chat] one that is not open gets its turn unseen
   * @param {string} [rest] what is written there still
   */
  async send(content, chat = this.#desk.chat(), rest = this.#composer.text) {
    const open = chat === this.#desk.chat();
    const opened = this.#desk.opened();
    const turn = open ? this.#transcript.addTurn(content) : unseenTurn(content);
    if (!isOwn(content)) this.#drafts.sent(chat, content, rest);
    if (open) this.#begins(opened);
    try {
      const conversation = chat === NEW ? await this.#client.newId() : chat;
      const here = () => open && opened === this.#desk.opened();
      if (here() && chat === NEW) this.#begun(conversation);
      this.#sidebar.touch(conversation, titleOf(content));
      if (chat === NEW) this.#drafts.begun(conversation, content, here());
      const first = open ? this.#desk.first() : {};
      const answer = await this.#client.send({ content, conversation, model: this.#composer.model, ...first });
      this.#drafts.sentAs(conversation, content, answer.id);
      if (open) this.sending = 0;
      this.#desk.follow(answer, conversation, here() ? turn : { ...turn, view: null });
    } catch (error) {
      if (open) this.sending = 0;
      this.#failed(turn.view, error);
    }
  }

  /** @param {string} conversation the new chat's */
  #begun(conversation) {
    const waits = this.#waiting.get(NEW);
    if (waits !== undefined) this.#waiting.set(conversation, waits);
    this.#waiting.delete(NEW);
    this.#drafts.moveSummary(NEW, conversation);
    this.#desk.begin(conversation);
  }

  /** Nothing will be sent: what waits is a draft again. */
  stop() {
    for (const chat of [...this.#waiting.keys()]) this.takeBack(chat);
  }

  /** @param {number} opened */
  #begins(opened) {
    this.sending = opened;
    byId("announcer").textContent = "";
    this.#desk.changed();
  }

  /**
   * @param {AnswerView} view
   * @param {unknown} error
   */
  #failed(view, error) {
    const shown = failed(error);
    view.element.classList.add("refused");
    view.show(shown);
    byId("announcer").textContent = shown.error ? errorText(shown.error) : "";
    this.#desk.changed();
  }

  /**
   * Ask the same again. A turn that was refused left nothing behind on the server and is taken back here too.
   * @param {string} content
   */
  retry(content) {
    if (content === "") return location.reload();
    if (this.#desk.running(this.#desk.chat())) return;
    this.#dropRefused(content);
    void this.send(content);
  }

  /**
   * Ask it in other words.
   * @param {string} content
   */
  edit(content) {
    this.#dropRefused(content);
    if (!isOwn(content)) this.#composer.edit(content);
  }

  /** @param {string} content */
  #dropRefused(content) {
    if (!this.#transcript.refused) return;
    const chat = this.#desk.chat();
    this.#transcript.dropLastTurn();
    this.#drafts.taken(chat, content, this.#sidebar.isTyped(chat));
  }

  /**
   * An answer has ended: what waits for that goes out, or is a draft again where it went wrong.
   * @param {Answer} answer
   * @param {string} conversation
   * @param {AnswerView | null} view
   */
  ended(answer, conversation, view) {
    const { error, reason, accepted } = answer;
    const open = conversation === this.#desk.chat();
    if (error && !accepted && !open) this.#drafts.giveBack(conversation);
    const own = isOwn(answer.message?.content);
    if (error?.code === "conversation_busy" && !accepted && open) void this.#elsewhere(conversation, own);
    if (error && mustChange(error) && !own) this.#takeBack(answer, error, conversation, view);
    if ((error || ENDS_ALL.has(reason ?? "")) && this.takeBack(conversation) && open) {
      byId("announcer").textContent += ` ${AGAIN}`;
    }
    this.sendWaiting();
  }

  /**
   * Another answer runs in the open chat: it is shown, and what was sent here is a draft again.
   * @param {string} id
   * @param {boolean} own the page's own turn
   */
  async #elsewhere(id, own) {
    await this.#desk.again(id);
    if (id === this.#desk.chat()) this.#composer.elsewhere(own);
  }

  /**
   * Put a question that is not let in as it is back where it can be changed.
   * @param {Answer} answer
   * @param {ProtocolError} error
   * @param {string} conversation
   * @param {AnswerView | null} view
   */
  #takeBack({ id, message }, error, conversation, view) {
    const content = message?.content;
    if (content === undefined || !view || byId("log").lastElementChild !== view.element) return;
    this.#transcript.dropLastTurn();
    this.#drafts.taken(conversation, content, this.#sidebar.isTyped(conversation));
    if (this.#transcript.empty && this.#sidebar.refused(conversation)) {
      this.#drafts.moveSummary(conversation, NEW);
      this.#drafts.drop(conversation);
      this.#desk.leave();
    }
    this.#composer.refused(content, error, id);
  }
}
