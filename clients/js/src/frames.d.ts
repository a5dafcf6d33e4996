// The messages of parley.v1. Written by scripts/client_types.py from the server's own types; what they mean
// is in docs/protocol.md.

/** The client's name for itself; for logs only. */
export interface Agent {
  name?: string;
  version?: string;
}

/** Windows that the client asks for, per request. */
export interface WindowRequest {
  events?: number | null;
  bytes?: number | null;
}

/** A request the client has no `end` of: `o` is the last offset it applied. */
export interface ResumeRequest {
  id: string;
  epoch?: number | null;
  o?: number;
}

/** The resume part of a hello. */
export interface ResumeRequests {
  token?: string | null;
  requests?: ResumeRequest[];
}

/** Opens the session. */
export interface Hello {
  t: "hello";
  v: number;
  token?: string | null;
  agent?: Agent | null;
  window?: WindowRequest | null;
  caps?: string[];
  resume?: ResumeRequests | null;
}

/** One turn. */
export interface Send {
  t: "send";
  id: string;
  model?: string | null;
  conversation?: string | null;
  content?: any;
  messages?: any;
  system?: string | null;
  options?: any;
  metadata?: any;
  continue?: string | null;
}

/** Read a request onward from `o`. */
export interface Attach {
  t: "attach";
  id: string;
  o: number;
  epoch?: number | null;
}

/** Stop reading a request. */
export interface Detach {
  t: "detach";
  id: string;
}

/** Applied through; optionally new event windows. */
export interface Ack {
  t: "ack";
  a: [number, number][];
  w?: Record<number | string, number> | null;
}

/** Stop generating. */
export interface Cancel {
  t: "cancel";
  id: string;
}

/** A fresh token within the session. */
export interface Auth {
  t: "auth";
  token: string;
}

/** Asks for a pong; from a client it may carry acks. */
export interface Ping {
  t: "ping";
  ts?: number | null;
  a?: [number, number][] | null;
}

/** Answers a ping; from a client it carries its acks. */
export interface Pong {
  t: "pong";
  ts?: number | null;
  a?: [number, number][] | null;
}

/** Orderly end of the session. */
export interface Bye {
  t: "bye";
}

export type ClientMessage =
  | Hello
  | Send
  | Attach
  | Detach
  | Ack
  | Cancel
  | Auth
  | Ping
  | Pong
  | Bye;

/** Times of the server's pings: the interval, and the wait for an answer. */
export interface HeartbeatTimes {
  interval_ms: number;
  timeout_ms: number;
}

/** The limits a welcome announces. */
export interface WireLimits {
  events: number;
  bytes: number;
  frame: number;
  requests: number;
  connection_bytes: number;
}

/** What of its conversation a prompt has: turns `kept`, this one too, and `dropped`; `room`: tokens that turns may still have before some are dropped. */
export interface ContextUse {
  kept: number;
  dropped: number;
  room: number;
}

/** One request in a welcome. `g` and `from` only where it is attached; `context` and `max_tokens` as in `accepted`. */
export interface WelcomeRequest {
  id: string;
  state: string;
  g?: number;
  epoch?: number;
  from?: number;
  head?: number;
  why?: string;
  context?: ContextUse;
  max_tokens?: number;
}

/** Answers hello. */
export interface Welcome {
  t: "welcome";
  session: string;
  connection: string;
  resume_token: string;
  resume_expires_at: number;
  heartbeat: HeartbeatTimes;
  limits: WireLimits;
  resumed: string;
  requests: WelcomeRequest[];
  now: number;
}

/** Position of an accepted request in line. */
export interface QueuePosition {
  position: number;
  wait_ms: number;
}

/** Remaining part of a limit; `resets_at_ms` (Unix ms): when it is whole again, absent where never. */
export interface Left {
  limit: number;
  remaining: number;
  resets_at_ms?: number;
}

/** The limits of a request with the least left, one of each kind; a budget in nano-USD. */
export interface QuotaLeft {
  requests?: Left;
  tokens?: Left;
  budget?: Left;
}

/** A place in the text as its sender sent it, `n` code points from `p` on, of the message `m` where several were sent, or of `system`. `x`: the placeholder that model and history got in its stead. */
export interface SentFlag {
  category: string;
  action: "redact" | "flag";
  scope: "platform" | "tenant" | "project";
  p: number;
  n: number;
  x?: string;
  m?: number | "system";
}

/** The request is durable; `g` names it on this connection. `flags`: what safety found in the prompt, only the first time; `context` of a conversation; `max_tokens` of the answer. */
export interface Accepted {
  t: "accepted";
  id: string;
  g: number;
  epoch: number;
  dup: boolean;
  priority: string;
  queue: QueuePosition;
  quota: QuotaLeft;
  flags?: SentFlag[];
  context?: ContextUse;
  max_tokens?: number;
}

/** The request is read from `from` on. `context` and `max_tokens` as in `accepted`. */
export interface Attached {
  t: "attached";
  g: number;
  id: string;
  epoch: number;
  from: number;
  head: number;
  state: string;
  context?: ContextUse;
  max_tokens?: number;
}

/** Text of the log's entries a..b. For cap `trace`: the `batch`-th delta, which waited `ms` here. */
export interface Delta {
  t: "delta";
  g: number;
  a: number;
  b: number;
  p: number;
  x: string;
  i: number;
  batch?: number;
  ms?: number;
}

/** Something happened to the request, or (without `o`) to this connection's reading of it. */
export interface Event {
  t: "event";
  g: number;
  k: string;
  o?: number;
  v?: any;
}

/** Forget everything; the text through `o` is `x`. */
export interface Snap {
  t: "snap";
  g: number;
  epoch: number;
  o: number;
  x: string;
}

/** Drop all text from position `p` on. */
export interface Retract {
  t: "retract";
  g: number;
  o: number;
  p: number;
  category: string;
  policy: string;
}

/** Tokens of an ended request; `cached_input` is part of `input`, told where amounts are shown. */
export interface EndUsage {
  input: number;
  cached_input?: number;
  output: number;
  total: number;
}

/** Price of an ended request in 10^-9 of the currency. */
export interface Cost {
  nano: number;
  currency: string;
}

/** Durations of an ended request. */
export interface Timing {
  queue_ms: number;
  ttft_ms: number;
  total_ms: number;
}

/** What blocked an answer, and whose policy it was. */
export interface EndSafety {
  category: string;
  scope: "platform" | "tenant" | "project";
}

/** The request ended; nothing of it follows. */
export interface End {
  t: "end";
  g: number;
  o: number;
  reason: string;
  usage: EndUsage;
  cost?: Cost;
  timing: Timing;
  h: string;
  code?: string;
  safety?: EndSafety;
}

/** Answers cancel; `state`: pending, queued, running, parked, ended. */
export interface CancelOk {
  t: "cancel_ok";
  id: string;
  state: string;
}

/** The token ends soon. */
export interface AuthRequired {
  t: "auth_required";
  expires_in_ms: number;
}

/** The fresh token is taken. */
export interface AuthOk {
  t: "auth_ok";
  expires_in_ms?: number;
}

/** The server will close this socket. */
export interface GoAway {
  t: "go_away";
  why: string;
  in_ms: number;
  url?: string;
}

/** The place in the text as its sender sent it for which all of it was refused. */
export interface RefusedPrompt {
  category: string;
  scope: "platform" | "tenant" | "project";
  p: number;
  n: number;
  m?: number | "system";
}

/** Tokens of what is too large: how many it `has`, and how many would `fit`. */
export interface TokenCounts {
  has: number;
  fit: number;
}

/** A refusal. `scope` is at its `limit` of `dimension`; the numbers count that, money in nano-USD. `safety`: what of a prompt is refused; `tokens`: by how much it is too large. */
export interface Error {
  t: "error";
  code: string;
  message: string;
  retry: boolean;
  re?: string;
  id?: string;
  after_ms?: number;
  scope?: string;
  limit?: number;
  dimension?: string;
  remaining?: number;
  spent?: number;
  held?: number;
  resets_at_ms?: number;
  safety?: RefusedPrompt;
  tokens?: TokenCounts;
}

/** Asks the client for a pong. */
export interface ServerPing {
  t: "ping";
  ts: number;
}

/** Answers the client's ping. */
export interface ServerPong {
  t: "pong";
  ts: number | null;
}

export type ServerMessage =
  | Welcome
  | Accepted
  | Attached
  | Delta
  | Event
  | Snap
  | Retract
  | End
  | CancelOk
  | AuthRequired
  | AuthOk
  | GoAway
  | Error
  | ServerPing
  | ServerPong;
