/**
 * Client of the bothworlds decision service.
 *
 * `decide` returns an arm, or your default when the service is unavailable; it never waits longer
 * than `timeout`. `feedback` is sent in the background, with retries, and on page close.
 *
 *     const bandit = new Client("https://bandit.example.com", { key });
 *     const decision = await bandit.decide("headline", { default: "blue", unit: userId });
 *     show(decision.arm);
 *     bandit.feedback(decision, { reward: 1 });
 */
import type { components } from "./schema.js";

type Schemas = components["schemas"];
export type Outcome = { loss: number } | { reward: number };
export type Status = Schemas["ToldOfMany"]["status"] | "default";

export interface Options {
  /**
   * A key on a server; in a page, a function that gets a decide token from your server. It is
   * called again when the token has expired. Leave it out behind a relay that adds the key.
   */
  key?: string | (() => Promise<string>);
  /** Milliseconds that a call may take, retries included. Default 1000. */
  timeout?: number;
  /** How often a request is sent again. Default 3. */
  retries?: number;
  /** Receives every feedback that could not be delivered. Default: console.warn. */
  onLost?: (error: ServiceError, id: string) => void;
  /** The function that sends requests. Default: the global fetch. */
  fetch?: typeof fetch;
}

export interface Ask {
  /** The arm to use when the service is unavailable. Without it, `decide` throws. */
  default?: string;
  available?: string[];
  unit?: string;
  deferred?: boolean;
  /** Makes a repeated request return the same decision. */
  idempotencyKey?: string;
  /** If the experiment has experts: the arm that each recommends, or probabilities of arms. */
  advice?: Record<string, string | Record<string, number>>;
  /** Experts without advice this time. */
  asleep?: string[];
  /** Whether to return the probabilities of all arms, and the weights of the experts. */
  vector?: boolean;
  /** The segment to decide in, such as a country; a new one is created. */
  segment?: string;
}

export interface Decision {
  experiment: string;
  arm: string;
  value: unknown;
  /** What feedback names, the service's decision_id; null for a default. */
  decisionId: string | null;
  probability: number | null;
  mode: "learn" | "pinned" | "shadow" | "uniform" | "default";
  expiresAt: number | null;
  /** Of every available arm; with `vector`. */
  probabilities?: Record<string, number>;
  /** The weight of every expert; with `vector`. */
  experts?: Record<string, number>;
  /** Why this is a default. */
  error?: ServiceError;
}

/** A refusal, or the reason why there is no answer (code "unavailable"). */
export class ServiceError extends Error {
  override name = "ServiceError";
  constructor(message: string, readonly code: string, readonly status: number | null = null) {
    super(message);
  }
}

const MOMENTARY = new Set(["rate_limited", "overloaded", "store_unavailable", "shutting_down", "internal"]);
const MODES = new Set(["learn", "pinned", "shadow", "uniform"]);
const LARGEST_BATCH = 256;

/** Statuses after which the service, or what stands before it, may answer another time. */
function isAway(status: number | null): boolean {
  return status === 408 || (status !== null && status >= 500);
}

interface Waiting { id: string; outcome: Outcome; settle: (status: Status) => void }

export class Client {
  readonly #url: string;
  readonly #options: Options;
  readonly #waiting = new Map<string, Waiting>();
  #sending: Promise<void> | null = null;
  #key: string | undefined; // What the function returned last.
  readonly #leave = () => { this.#sendOnLeave(); };

  constructor(url: string, options: Options = {}) {
    const parsed = new URL(url);
    if (!/^https?:$/.test(parsed.protocol)) throw new TypeError(`The service's URL must begin with http:// or https://, got ${url}.`);
    this.#url = parsed.href.replace(/\/$/, "");
    this.#options = options;
    globalThis.addEventListener?.("pagehide", this.#leave);
  }

  /** Ask which arm to use. */
  async decide(experiment: string, ask: Ask = {}): Promise<Decision> {
    const { default: standIn, idempotencyKey, vector, ...body } = ask;
    const headers: Record<string, string> = { "Idempotency-Key": idempotencyKey ?? crypto.randomUUID() };
    const path = `/v1/experiments/${encodeURIComponent(experiment)}/decisions${vector ? "?vector=1" : ""}`;
    try {
      return decisionOf(experiment, await this.#call("POST", path, body, headers));
    } catch (error) {
      return defaultFor(experiment, standIn, error);
    }
  }

  /** Ask for several independent decisions of one experiment. */
  async decideMany(experiment: string, count: number, ask: Omit<Ask, "available" | "unit" | "deferred" | "vector"> = {}): Promise<Decision[]> {
    const { default: standIn, idempotencyKey, ...body } = ask;
    const headers: Record<string, string> = { "Idempotency-Key": idempotencyKey ?? crypto.randomUUID() };
    const path = `/v1/experiments/${encodeURIComponent(experiment)}/decisions:batch`;
    try {
      const answer = await this.#call("POST", path, { count, ...body }, headers);
      const made = (answer as Partial<Schemas["DecidedMany"]>)?.decisions;
      if (!Array.isArray(made) || made.length !== count) throw malformed();
      return made.map((each) => decisionOf(experiment, each));
    } catch (error) {
      const one = defaultFor(experiment, standIn, error);
      return Array.from({ length: count }, () => one);
    }
  }

  /**
   * Report a loss or a reward, once per decision; resolves with what became of it.
   *
   * It is sent soon, together with other feedback, again after a failure, and when the page closes.
   * Feedback for a default resolves at once: there is nothing to learn from it.
   */
  feedback(decision: Decision | string, outcome: Outcome): Promise<Status> {
    const id = typeof decision === "string" ? decision : decision.decisionId;
    const number = "loss" in outcome ? outcome.loss : outcome.reward;
    if (!Number.isFinite(number)) throw new TypeError(`Feedback must be a finite number, got ${number}.`);
    if (id === null) return Promise.resolve("default");
    return new Promise((settle) => {
      this.#waiting.set(id, { id, outcome, settle });
      this.#sending ??= Promise.resolve().then(() => this.#send());
    });
  }

  /** Wait until all feedback is delivered or given up. */
  async flush(): Promise<void> {
    while (this.#sending !== null) await this.#sending;
  }

  /** Deliver what waits and stop listening to the page. */
  async close(): Promise<void> {
    globalThis.removeEventListener?.("pagehide", this.#leave);
    await this.flush();
  }

  async #send(): Promise<void> {
    while (this.#waiting.size > 0) {
      const batch = [...this.#waiting.values()].slice(0, LARGEST_BATCH);
      for (const each of batch) this.#waiting.delete(each.id);
      try {
        const answer = await this.#call("POST", "/v1/feedback:batch", bodyOf(batch));
        const results = (answer as Partial<Schemas["ToldMany"]>)?.results;
        if (!Array.isArray(results) || results.length !== batch.length) throw malformed();
        if (results.some((each: unknown) => typeof (each as Partial<Schemas["ToldOfMany"]> | null)?.status !== "string")) throw malformed();
        batch.forEach((each, place) => {
          const found = results[place] as Schemas["ToldOfMany"];
          if (found.status !== "refused") each.settle(found.status);
          else this.#lose(each, new ServiceError(found.detail ?? "The feedback was refused.", found.code ?? "refused"));
        });
      } catch (error) {
        for (const each of batch) this.#lose(each, asServiceError(error));
      }
    }
    this.#sending = null; // In the same step as the last look at what waits.
  }

  #lose(each: Waiting, error: ServiceError): void {
    (this.#options.onLost ?? ((lost, id) => console.warn(`Feedback for ${id} was not delivered: ${lost.message}`)))(error, each.id);
    each.settle("refused");
  }

  /** A closing page cannot wait: hand everything to the browser, which sends it later. */
  #sendOnLeave(): void {
    while (this.#waiting.size > 0) {
      const batch = [...this.#waiting.values()].slice(0, LARGEST_BATCH);
      for (const each of batch) this.#waiting.delete(each.id);
      const url = `${this.#url}/v1/feedback:batch`;
      const body = JSON.stringify(bodyOf(batch));
      if (this.#options.key === undefined && typeof navigator !== "undefined" && navigator.sendBeacon) {
        navigator.sendBeacon(url, new Blob([body], { type: "application/json" }));
      } else {
        // A beacon cannot carry a key; a request that outlives the page can.
        void (this.#options.fetch ?? fetch)(url, { method: "POST", body, headers: this.#headers(this.#key), keepalive: true, credentials: "omit" }).catch(() => undefined);
      }
    }
  }

  #headers(key: string | undefined): Record<string, string> {
    const headers: Record<string, string> = { Accept: "application/json", "Content-Type": "application/json" };
    if (key !== undefined) headers["Authorization"] = `Bearer ${key}`;
    return headers;
  }

  async #keyed(): Promise<Record<string, string>> {
    const { key } = this.#options;
    this.#key ??= typeof key === "function" ? await key() : key;
    return this.#headers(this.#key);
  }

  async #call(method: string, path: string, body: unknown, more: Record<string, string> = {}): Promise<unknown> {
    const { timeout = 1000, retries = 3 } = this.#options;
    const deadline = Date.now() + timeout;
    let pause = 20;
    for (let attempt = 0; ; attempt += 1) {
      let error: ServiceError;
      let wait = Math.random() * pause;
      try {
        const response = await (this.#options.fetch ?? fetch)(this.#url + path, {
          method, body: JSON.stringify(body), headers: { ...(await this.#keyed()), ...more },
          credentials: "omit", redirect: "manual", signal: AbortSignal.timeout(Math.max(1, deadline - Date.now())),
        });
        const text = await response.text();
        const answer: unknown = isJson(response) ? parse(text) : undefined;
        if (response.ok && answer !== undefined) return answer;
        const problem = answer as Partial<Schemas["ProblemDocument"]> | undefined;
        if (typeof problem?.code === "string" && !response.ok) {
          error = new ServiceError(String(problem.detail ?? problem.title ?? problem.code), problem.code, response.status);
          const renewed = problem.code === "token_expired" && typeof this.#options.key === "function";
          if (renewed) this.#key = undefined;
          if (!renewed && !MOMENTARY.has(problem.code) && !isAway(response.status)) throw error;
          wait = Math.max(wait, 1000 * (Number(response.headers.get("retry-after")) || 0));
        } else {
          // A proxy answered, or something else that is not this service.
          error = new ServiceError(`The service is unavailable: status ${response.status}.`, "unavailable", response.status);
        }
      } catch (caught) {
        if (caught instanceof ServiceError) throw caught;
        error = asServiceError(caught);
      }
      if (attempt === retries || Date.now() + wait >= deadline) throw error;
      await new Promise((resolve) => setTimeout(resolve, wait));
      pause = Math.min(2 * pause, 1000);
    }
  }
}

function bodyOf(batch: Waiting[]): Schemas["FeedbackMany"] {
  return { items: batch.map(({ id, outcome }) => ({ decision_id: id, ...outcome })) };
}

function decisionOf(experiment: string, answer: unknown): Decision {
  const made = answer as Partial<Schemas["Decided"]> | null;
  if (typeof made?.arm !== "string" || typeof made.decision_id !== "string" || typeof made.expires_at !== "number") throw malformed();
  // Rounding may leave a probability a little above 1.
  if (typeof made.probability !== "number" || !(made.probability > 0 && made.probability <= 1 + 1e-9)) throw malformed();
  if (made.mode === undefined || !MODES.has(made.mode)) throw malformed();
  return {
    experiment, arm: made.arm, value: made.value ?? null, decisionId: made.decision_id, probability: Math.min(1, made.probability),
    mode: made.mode, expiresAt: made.expires_at,
    ...(made.probabilities && { probabilities: made.probabilities }), ...(made.experts && { experts: made.experts }),
  };
}

function defaultFor(experiment: string, standIn: string | undefined, error: unknown): Decision {
  const known = asServiceError(error);
  const away = known.code === "unavailable" || MOMENTARY.has(known.code) || isAway(known.status);
  if (standIn === undefined || !away) throw known;
  return { experiment, arm: standIn, value: null, decisionId: null, probability: null, mode: "default", expiresAt: null, error: known };
}

function asServiceError(error: unknown): ServiceError {
  if (error instanceof ServiceError) return error;
  return new ServiceError(`The service is unavailable: ${error instanceof Error ? error.message : String(error)}.`, "unavailable");
}

function malformed(): ServiceError {
  return new ServiceError("The service is unavailable: the answer is not one of the decision service.", "unavailable");
}

function isJson(response: Response): boolean {
  return /^application\/(problem\+)?json\b/.test(response.headers.get("content-type") ?? "");
}

function parse(text: string): unknown {
  try { return JSON.parse(text); } catch { return undefined; }
}
