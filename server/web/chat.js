// The chat page: signs in, then puts the client, the list of chats and the transcript together.

import { chatInAddress, nameChat, unnameChat, watchAddress } from "./address.js";
import { failed } from "./answer_view.js";
import * as api from "./api.js";
import { Browsers } from "./browsers.js";
import { Client, ProtocolError } from "/web/client/client.js";
import { Composer } from "./composer.js";
import { byId, closeDialogs } from "./dom.js";
import { Drafts, NEW } from "./drafts.js";
import { onEscape } from "./keys.js";
import { endPage, hasEnded } from "./left_page.js";
import { Notice } from "./notice.js";
import { actAs } from "./person.js";
import { refused } from "./refusal_words.js";
import { Sidebar } from "./sidebar.js";
import { Outbox } from "./outbox.js";
import { signIn } from "./sign_in.js";
import { StartAnew } from "./start_anew.js";
import { suggest } from "./suggestions.js";
import { themeSwitch } from "./theme.js";
import { freshToken, leaveIfSignedOut, SUSPENDED } from "./token.js";
import { Transcript } from "./transcript.js";
import { meanwhileText, saidAtEnd, titleOf } from "./words.js";

/** @typedef {import("/web/client/answer.js").Answer} Answer */
/** @typedef {import("./answer_view.js").AnswerView} AnswerView */
/** @typedef {import("./question_view.js").QuestionView} QuestionView */
/**
 * @typedef {{answer: Answer, conversation: string, view: AnswerView | null, question?: QuestionView}} Live an
 *   answer on its way; of one that was asked for here, the question too
 */

class Chat {
  /** @param {api.Me} me */
  constructor(me) {
    actAs(me.person, () => endPage(this.client, this.#drafts, this.#sidebar));
    this.client = new Client({
      token: freshToken,
      onState: () => this.#linked(),
      onChange: (answer, change) => this.#changed(answer, change),
      onError: (error) => console.info(`parley: ${error.code}: ${error.message}`),
    });
    this.#transcript = new Transcript(
      (content) => this.#outbox.retry(content),
      (content) => this.#outbox.edit(content),
      (view, id) => void this.#goOn(view, id),
    );
    this.#composer = new Composer({
      send: (content) => void this.#outbox.send(content),
      wait: (text) => this.#outbox.wait(this.#chat, text),
      takeBack: () => void this.#outbox.takeBack(this.#chat),
      stop: () => this.#stop(),
      stopAndSend: (text) => {
        if (!this.#outbox.waits(this.#chat)) this.#outbox.wait(this.#chat, text);
        this.#cancel();
      },
      typed: (text) => this.#typed(text),
    });
    this.#sidebar = new Sidebar((id) => {
      this.#drafts.drop(id);
      if (id === this.#current) location.hash = "#/";
    });
    this.#notice = new Notice(
      () => {
        if (this.client.state.state === "stopped") location.reload();
        else this.client.reconnect();
      },
      (connected) => this.#connected(connected),
      () => meanwhileText([...this.#live.values()].map(({ answer }) => answer), this.#outbox.sending > 0),
    );
    this.#drafts = new Drafts(
      me.person,
      () => this.#sidebar.setDrafts(this.#drafts.all),
      (chat, before, now) => {
        if (before !== now) this.#outbox.takeBack(chat);
        if (chat === this.#chat) this.#composer.follow(before, now);
      },
    );
    this.#sidebar.setDrafts(this.#drafts.all);
    this.#outbox = new Outbox(this.client, this.#transcript, this.#composer, this.#sidebar, this.#drafts, {
      chat: () => this.#chat,
      opened: () => this.#opened,
      connected: () => this.#link === "open",
      running: (chat) => this.#busy(chat),
      begin: (id) => this.#become(id),
      leave: () => this.#become(null),
      again: (id) => this.#again(id),
      follow: (answer, conversation, turn) => this.#follow(answer, conversation, turn.view, turn.question),
      changed: () => this.#frame(),
      first: () => this.#anew.first,
    });
  }

  #transcript;
  #composer;
  #anew = new StartAnew((content) => void this.#outbox.send(content), () => this.#drafts, () => this.#composer);
  #sidebar;
  #notice;
  #drafts;
  /** @type {Outbox} */
  #outbox;
  /** @type {Map<string, Live>} by request id */
  #live = new Map();
  /** @type {string | null} the open chat; null: one that has no message yet */
  #current = null;
  /** Counts the chats opened, so that what comes late for an earlier one is told apart. */
  #opened = 0;
  #lost = false;

  /**
   * Start, once signed in.
   * @param {boolean} sameReader who wrote while the page loaded is who is signed in: no form, no other account
   */
  async start(sameReader) {
    themeSwitch(byId("theme"));
    byId("sign-out").addEventListener("click", () => void this.#signOut());
    new Browsers(() => this.#signOut());
    watchAddress((id) => void this.#open(id));
    onEscape(() => (this.#sidebar.open ? this.#sidebar.close() : this.#stop()));
    suggest((text) => void this.#outbox.send(text));
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
    await api.logout().catch(() => {});
    if (hasEnded()) return;
    this.client.close();
    this.#drafts.clear();
    location.replace("/");
  }

  /**
   * Show a chat, and go on with the answer that runs in it.
   * @param {string | null} id
   */
  async #open(id) {
    if (id !== null && id === this.#current) return;
    if (!this.#busy(this.#chat)) this.#drafts.giveBack(this.#chat);
    const opened = ++this.#opened;
    this.#current = id;
    for (const live of this.#live.values()) live.view = null;
    this.#transcript.clear();
    this.#anew.opened(id);
    this.#sidebar.setCurrent(id);
    this.#composer.show(id === null ? this.#drafts.giveBack(NEW) : this.#drafts.text(id));
    this.#frame();
    if (!this.#anew.focus()) this.#composer.focus();
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

  /** Show the open chat as the server has it by now. @param {string} id */
  #again(id) {
    this.#current = null;
    return this.#open(id);
  }

  /** @param {string} conversation @param {api.Message[]} messages */
  #history(conversation, messages) {
    this.#transcript.addHistory(messages, (id, view) => this.#follow(this.client.attach(id), conversation, view));
    void this.#anew.read(messages[messages.length - 1] ?? {});
    this.#drafts.arrived(conversation, new Set(messages.map(({ request_id }) => request_id)));
    this.#showUnheard(conversation);
    this.#transcript.toEnd();
  }

  /** @param {string} id @param {unknown} error */
  #openFailed(id, error) {
    const gone = error instanceof api.HttpError && error.status === 404;
    if (gone && (this.#showUnheard(id) || this.#drafts.text(id) !== "")) return;
    const code = gone ? "unknown_conversation" : "internal";
    const message = gone ? "There is no such chat. It may have been deleted." : "This chat could not be loaded.";
    this.#transcript.addAnswer("").show(failed(new ProtocolError({ code, message })));
  }

  /**
   * What went out in this chat and the server has not: it is on its way still, or a draft again.
   * @param {string} conversation
   * @returns {boolean} it is on its way
   */
  #showUnheard(conversation) {
    const live = this.#running();
    if (!live || live.answer.accepted || !live.question) {
      this.#composer.follow(this.#drafts.text(conversation), this.#drafts.giveBack(conversation));
      return false;
    }
    live.question = this.#transcript.addQuestion(live.question.text);
    live.view = this.#transcript.addAnswer(live.question.text);
    this.#transcript.changed(live.view, live.answer);
    return true;
  }

  /**
   * The draft of the open chat was changed.
   * @param {string} text
   */
  #typed(text) {
    const kept = this.#drafts.write(this.#chat, text, this.#current !== null && this.#sidebar.isTyped(this.#current));
    this.#composer.setKept(kept);
    this.#outbox.written(this.#chat, text);
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

  /**
   * Go on with the newest answer, which was cut at its limit.
   * @param {AnswerView} view
   * @param {string} id of its request
   */
  async #goOn(view, id) {
    const conversation = this.#current;
    if (conversation === null || this.#busy(conversation)) return;
    view.goesOn();
    const opened = (this.#outbox.sending = this.#opened);
    const sent = await this.client.send({ conversation, continue: id }).catch((/** @type {unknown} */ error) => error);
    this.#outbox.sending = 0;
    if (sent instanceof Error) view.show(failed(sent));
    else this.#follow(/** @type {Answer} */ (sent), conversation, opened === this.#opened ? view : null);
  }

  /**
   * The new chat has an id now, and an address; or the open chat is none, and the next question begins one.
   * @param {string | null} conversation
   */
  #become(conversation) {
    this.#current = conversation;
    this.#anew.opened(conversation);
    if (conversation === null) unnameChat();
    else nameChat(conversation);
    this.#sidebar.setCurrent(conversation);
  }

  /** Nothing runs, and nothing follows: what waits is a draft again. */
  #stop() {
    if (this.#running()) this.#outbox.takeBack(this.#chat);
    this.#cancel();
  }

  #cancel() {
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
    if (answer.message?.content) this.#drafts.taken(conversation, answer.message.content);
    this.#anew.accepted(answer, conversation === this.#current);
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

  /** @param {Live} live @param {QuestionView} question */
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
    if (live.conversation === this.#current) {
      byId("announcer").textContent = saidAtEnd(answer);
      this.#anew.ended(answer);
    }
    this.#outbox.ended(answer, live.conversation, live.view);
    this.#frame();
  }

  /** By which the open chat's draft is kept. */
  get #chat() {
    return this.#current ?? NEW;
  }

  /** The answer on its way in a chat, the open one unless named. @param {string} [chat] */
  #running(chat = this.#chat) {
    for (const live of this.#live.values()) if (live.conversation === chat) return live;
    return null;
  }

  /**
   * An answer is on its way in a chat, or will be.
   * @param {string} chat
   */
  #busy(chat) {
    return this.#running(chat) !== null || (chat === this.#chat && this.#outbox.sending === this.#opened);
  }

  /** Whether a turn would go out. */
  get #link() {
    if (this.client.state.state === "stopped") return "stopped";
    return this.#transcript.connected ? "open" : "lost";
  }

  /** What follows from the state: title, empty page, buttons. */
  #frame() {
    if (hasEnded()) return;
    const title = (this.#current && this.#sidebar.titleOf(this.#current)) || "New chat";
    byId("title").textContent = title;
    document.title = this.#current ? `${title} · Parley` : "Parley";
    byId("empty").hidden = this.#current !== null || !this.#transcript.empty;
    this.#composer.setState({ running: this.#busy(this.#chat), link: this.#link, waits: this.#outbox.waits(this.#chat) });
    this.#anew.changed();
  }

  #linked() {
    const { state } = this.client;
    if (state.state === "stopped" && state.code === "closed") return; // by us: the page is about to go
    this.#notice.show(state);
    if (state.state === "waiting") this.#lost = true;
    if (state.state === "stopped") this.#outbox.stop();
    this.#frame();
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
    this.#frame();
    if (connected) this.#outbox.sendWaiting();
    for (const { view, answer } of this.#live.values()) if (view) this.#transcript.changed(view, answer);
  }
}

const me = await signIn();
const another = /** @type {HTMLDialogElement} */ (byId("another")).returnValue === "switch";
const sameReader = document.body.dataset.view === "loading" && !another;
document.body.dataset.view = "chat";
await new Chat(me).start(sameReader);
