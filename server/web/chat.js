// The chat page: signs in, then puts the client, the list of chats and the transcript together.

import { failed } from "./answer_view.js";
import * as api from "./api.js";
import { chatInAddress } from "./address.js";
import { Browsers } from "./browsers.js";
import { Client, ProtocolError } from "/web/client/client.js";
import { Composer } from "./composer.js";
import { markContext } from "./context_mark.js";
import { byId, closeDialogs } from "./dom.js";
import { composes } from "./keys.js";
import { Notice } from "./notice.js";
import { Sidebar } from "./sidebar.js";
import { mustChange, refused } from "./refusal_words.js";
import { signIn } from "./sign_in.js";
import { suggest } from "./suggestions.js";
import { themeSwitch } from "./theme.js";
import { freshToken, leaveIfSignedOut, SUSPENDED } from "./token.js";
import { Transcript } from "./transcript.js";
import { Unsent } from "./unsent.js";
import { errorText, endText, titleOf } from "./words.js";

/** @typedef {import("/web/client/answer.js").Answer} Answer */
/** @typedef {import("./answer_view.js").AnswerView} AnswerView */
/** @typedef {import("./question_view.js").QuestionView} QuestionView */
/**
 * @typedef {{answer: Answer, conversation: string, view: AnswerView | null, question?: QuestionView}} Live an
 *   answer on its way; of one that was asked for here, the question too
 */

class Chat {
  constructor() {
    this.client = new Client({
      token: freshToken,
      onState: () => this.#linked(),
      onChange: (answer, change) => this.#changed(answer, change),
      onError: (error) => console.info(`parley: ${error.code}: ${error.message}`),
    });
    this.#transcript = new Transcript(
      (content) => this.#retry(content),
      (content) => this.#composer.edit(content),
      (view, id) => void this.#goOn(view, id),
    );
    this.#composer = new Composer(
      (content) => void this.#send(content),
      () => this.#stop(),
    );
    this.#sidebar = new Sidebar((id) => {
      this.#unsent.drop(id);
      if (id === this.#current) location.hash = "#/";
    });
    this.#notice = new Notice(
      () => {
        if (this.client.state.state === "stopped") location.reload();
        else this.client.reconnect();
      },
      (connected) => this.#connected(connected),
    );
  }

  #transcript;
  #composer;
  #sidebar;
  #notice;
  #unsent = new Unsent();
  /** @type {Map<string, Live>} by request id */
  #live = new Map();
  /** @type {string | null} the open chat; null: one that has no message yet */
  #current = null;
  /** Counts the chats opened, so that what comes late for an earlier one is told apart. */
  #opened = 0;
  /** A turn of this opening is on its way to get an id. */
  #sending = 0;
  #lost = false;

  /**
   * Start, once signed in.
   * @param {boolean} sameReader who wrote while the page loaded is who is signed in: no form, no other account
   */
  async start(sameReader) {
    themeSwitch(byId("theme"));
    byId("sign-out").addEventListener("click", () => void this.#signOut());
    new Browsers(() => this.#signOut());
    addEventListener("hashchange", () => {
      if (location.hash.startsWith("#c=")) location.reload();
      else void this.#open(chatInAddress());
    });
    document.addEventListener("keydown", (event) => this.#key(event));
    suggest((text) => void this.#send(text));
    this.client.connect();
    await Promise.all([this.#load(), this.#open(chatInAddress())]);
    this.#composer.early(sameReader);
  }

  /** Chats and models. Where it fails the notice tells why, and the next connection loads again. */
  async #load() {
    const models = api.models().then((found) => this.#composer.setModels(found));
    await Promise.allSettled([this.#sidebar.load(), models]);
    this.#frame();
  }

  async #signOut() {
    this.client.close();
    this.#unsent.clear();
    await api.logout().catch(() => {});
    location.replace("/");
  }

  /**
   * Show a chat, and go on with the answer that runs in it.
   * @param {string | null} id
   */
  async #open(id) {
    if (id !== null && id === this.#current) return;
    const opened = ++this.#opened;
    this.#current = id;
    for (const live of this.#live.values()) live.view = null;
    this.#transcript.clear();
    this.#sidebar.setCurrent(id);
    this.#frame();
    this.#composer.focus();
    if (id === null) return;
    try {
      const messages = await api.messages(id);
      if (opened !== this.#opened) return; // another one was opened meanwhile
      this.#history(id, messages);
    } catch (error) {
      if (opened === this.#opened) this.#openFailed(id, error);
    }
    this.#frame();
  }

  /**
   * @param {string} conversation
   * @param {api.Message[]} messages
   */
  #history(conversation, messages) {
    let question = "";
    let view = /** @type {AnswerView | null} */ (null);
    for (const message of messages) {
      if (message.role === "user") {
        question = message.content;
        this.#transcript.addQuestion(question, message.flags);
      } else if (message.role === "assistant") {
        if (message.continues && view) view.goesOn();
        else view = this.#transcript.addAnswer(question);
        if (message.status === "running") this.#follow(this.client.attach(message.request_id), conversation, view);
        else view.show({ ...message, id: message.request_id, text: message.content, status: "ended" });
      }
    }
    markContext(messages[messages.length - 1]?.context);
    this.#unsent.look(conversation, messages);
    this.#showUnsent(conversation);
    this.#transcript.toEnd();
  }

  /**
   * @param {string} id
   * @param {unknown} error
   */
  #openFailed(id, error) {
    const gone = error instanceof api.HttpError && error.status === 404;
    if (gone && this.#showUnsent(id)) return;
    const code = gone ? "unknown_conversation" : "internal";
    const message = gone ? "There is no such chat. It may have been deleted." : "This chat could not be loaded.";
    this.#transcript.addAnswer("").show(failed(new ProtocolError({ code, message })));
  }

  /**
   * What was typed in this chat and the server did not take.
   * @param {string} conversation
   */
  #showUnsent(conversation) {
    const content = this.#unsent.of(conversation);
    if (content === undefined) return false;
    this.#transcript.addQuestion(content);
    const view = this.#transcript.addAnswer(content);
    view.element.classList.add("refused");
    view.show(failed(new Error("This message was not sent.")));
    return true;
  }

  /**
   * @param {Answer} answer
   * @param {string} conversation
   * @param {AnswerView | null} view
   * @param {QuestionView} [question]
   */
  #follow(answer, conversation, view, question) {
    const live = { answer, conversation, view, question };
    this.#live.set(answer.id, live);
    if (answer.accepted) this.#accepted(live);
    this.#sidebar.setRunning(conversation, true);
    if (answer.finished) this.#ended(answer);
    if (view) this.#transcript.changed(view, answer);
    this.#frame();
  }

  /** @param {string} content */
  async #send(content) {
    const question = this.#transcript.addQuestion(content);
    const view = this.#transcript.addAnswer(content);
    this.#transcript.changed(view, { text: "", status: "sending", reason: null, usage: null, cost: null });
    const opened = (this.#sending = this.#opened);
    byId("announcer").textContent = "";
    this.#frame();
    this.#transcript.toEnd();
    try {
      const conversation = this.#current ?? (await this.client.newId());
      if (opened === this.#opened && this.#current === null) this.#begin(conversation);
      this.#unsent.keep(conversation, content);
      this.#sidebar.touch(conversation, titleOf(content));
      const answer = await this.client.send({ content, conversation, model: this.#composer.model });
      this.#unsent.sentAs(conversation, answer.id);
      this.#sending = 0;
      this.#follow(answer, conversation, opened === this.#opened ? view : null, question);
    } catch (error) {
      this.#sending = 0;
      const shown = failed(error);
      view.element.classList.add("refused");
      view.show(shown);
      byId("announcer").textContent = shown.error ? errorText(shown.error) : "";
      this.#frame();
    }
  }

  /**
   * Go on with the newest answer, which was cut at its limit.
   * @param {AnswerView} view
   * @param {string} id of its request
   */
  async #goOn(view, id) {
    const conversation = this.#current;
    if (conversation === null || this.#running() || this.#sending === this.#opened) return;
    view.goesOn();
    const opened = (this.#sending = this.#opened);
    const sent = await this.client.send({ conversation, continue: id }).catch((/** @type {unknown} */ error) => error);
    this.#sending = 0;
    if (sent instanceof Error) view.show(failed(sent));
    else this.#follow(/** @type {Answer} */ (sent), conversation, opened === this.#opened ? view : null);
  }

  /**
   * The new chat has an id now: give it an address.
   * @param {string} conversation
   */
  #begin(conversation) {
    this.#current = conversation;
    history.pushState(null, "", `#/${conversation}`);
    this.#sidebar.setCurrent(conversation);
  }

  /** The open chat is none: a new one begins with the next question. */
  #leave() {
    this.#current = null;
    history.replaceState(null, "", "#/");
    this.#sidebar.setCurrent(null);
  }

  /**
   * Ask the same again. A turn that was refused left nothing behind on the server and is taken back here too.
   * @param {string} content
   */
  #retry(content) {
    if (this.#running()) return;
    if (content === "") return location.reload();
    if (byId("log").lastElementChild?.classList.contains("refused")) this.#transcript.dropLastTurn();
    void this.#send(content);
  }

  #stop() {
    const live = this.#running();
    if (!live) return;
    this.client.cancel(live.answer);
    this.#composer.stopping();
    if (live.view) this.#transcript.changed(live.view, live.answer);
  }

  /**
   * @param {Answer} answer
   * @param {import("/web/client/client.js").Change} change
   */
  #changed(answer, change) {
    const live = this.#live.get(answer.id);
    if (!live) return;
    if (live.view) this.#transcript.changed(live.view, answer);
    if (change === "accepted") this.#accepted(live);
    if (change === "end" || change === "failed") this.#ended(answer);
  }

  /** Its question is shown, here and as a title, as the model got it and the history keeps it. @param {Live} live */
  #accepted(live) {
    const { answer, conversation, question } = live;
    if (answer.message) this.#unsent.drop(conversation);
    if (conversation === this.#current) markContext(answer.context);
    if (!question) return;
    if (answer.dup) return void this.#reread(live);
    question.accepted(answer.promptFlags);
    this.#asRead(live, question);
  }

  /** What the model read of it was said to a connection that is lost: the history has it. @param {Live} live */
  async #reread(live) {
    const messages = await api.messages(live.conversation).catch(() => []);
    const stored = messages.find(({ role, request_id }) => role === "user" && request_id === live.answer.id);
    if (stored) live.question?.stored(stored.content, stored.flags);
    if (live.question) this.#asRead(live, live.question);
  }

  /**
   * @param {Live} live
   * @param {QuestionView} question
   */
  #asRead({ conversation }, question) {
    this.#sidebar.accepted(conversation, titleOf(question.text));
    this.#frame();
  }

  /** @param {Answer} answer */
  #ended(answer) {
    const live = this.#live.get(answer.id);
    if (!live) return;
    this.#live.delete(answer.id);
    if (refused(answer)) live.view?.element.classList.add("refused");
    this.#sidebar.setRunning(live.conversation, false);
    if (live.conversation === this.#current) this.#announce(answer);
    this.#takeBack(live);
    this.#frame();
  }

  /** Put a question that is not let in as it is back where it can be changed. @param {Live} live */
  #takeBack({ answer, conversation, view }) {
    const { error, message } = answer;
    const content = message?.content;
    if (!error || !mustChange(error) || content === undefined || !view || byId("log").lastElementChild !== view.element) return;
    this.#unsent.drop(conversation);
    this.#transcript.dropLastTurn();
    if (this.#sidebar.refused(conversation) && this.#transcript.empty) this.#leave();
    this.#composer.refused(content, error, answer.id);
  }

  /** @param {Answer} answer */
  #announce(answer) {
    const said = answer.error ? errorText(answer.error) : endText(answer) || "Answer complete";
    byId("announcer").textContent = answer.reason === "cancelled" ? "Answer stopped" : said;
  }

  /** The answer on its way in the open chat. */
  #running() {
    for (const live of this.#live.values()) if (live.conversation === this.#current) return live;
    return null;
  }

  /** What follows from the state: title, empty page, buttons. */
  #frame() {
    const title = (this.#current && this.#sidebar.titleOf(this.#current)) || "New chat";
    byId("title").textContent = title;
    document.title = this.#current ? `${title} · Parley` : "Parley";
    byId("empty").hidden = this.#current !== null || !this.#transcript.empty;
    this.#composer.setRunning(this.#running() !== null || this.#sending === this.#opened);
  }

  #linked() {
    const { state } = this.client;
    if (state.state === "stopped" && state.code === "closed") return; // by us: the page is about to go
    this.#notice.show(state, this.#live.size > 0);
    if (state.state === "waiting") this.#lost = true;
    if (state.state === "open" && this.#lost) {
      this.#lost = false;
      void this.#load();
    }
    if (state.state !== "stopped" || (state.code !== "unauthorized" && state.code !== SUSPENDED)) return;
    closeDialogs(); // what they offer works no more, and the notice is behind them
    if (state.code === "unauthorized") void leaveIfSignedOut();
  }

  /**
   * Show with each answer on its way that its connection is lost, or back.
   * @param {boolean} connected
   */
  #connected(connected) {
    if (this.#transcript.connected === connected) return;
    this.#transcript.connected = connected;
    for (const { view, answer } of this.#live.values()) if (view) this.#transcript.changed(view, answer);
  }

  /** @param {KeyboardEvent} event */
  #key(event) {
    if (event.key !== "Escape" || event.defaultPrevented || composes(event)) return;
    if (document.querySelector("dialog[open], :popover-open")) return;
    if (this.#sidebar.open) this.#sidebar.close();
    else this.#stop();
  }
}

await signIn();
const another = /** @type {HTMLDialogElement} */ (byId("another")).returnValue === "switch";
const sameReader = document.body.dataset.view === "loading" && !another;
document.body.dataset.view = "chat";
await new Chat().start(sameReader);
