/**
 * OpenFeature provider for browsers, which evaluate without waiting: the flags named on creation
 * are decided when the context is set, and kept until it changes.
 *
 *     const provider = new BothworldsWebProvider(new Client(url), ["headline"]);
 *     await OpenFeature.setContext({ targetingKey: user });
 *     await OpenFeature.setProviderAndWait(provider);
 *     const headline = OpenFeature.getClient().getStringValue("headline", "blue");
 *     OpenFeature.getClient().track("headline", { value: 1 });
 */
import { OpenFeatureEventEmitter, StandardResolutionReasons, ErrorCode } from "@openfeature/web-sdk";
import type { EvaluationContext, JsonValue, Provider, ResolutionDetails, TrackingEventDetails } from "@openfeature/web-sdk";
import { Client } from "./index.js";
import type { Decision } from "./index.js";
import { Remembered, resolution } from "./openfeature.js";

export class BothworldsWebProvider implements Provider {
  readonly metadata = { name: "bothworlds" } as const;
  readonly runsOn = "client" as const;
  readonly events = new OpenFeatureEventEmitter();
  readonly #decisions = new Remembered();
  #made = new Map<string, Decision>();

  constructor(readonly client: Client, readonly flags: string[]) {}

  initialize(context: EvaluationContext = {}): Promise<void> {
    return this.#decideAll(context);
  }
  onContextChange(_: EvaluationContext, context: EvaluationContext): Promise<void> {
    return this.#decideAll(context);
  }

  async #decideAll({ targetingKey: unit }: EvaluationContext): Promise<void> {
    const made = await Promise.allSettled(this.flags.map((flag) => this.client.decide(flag, unit === undefined ? {} : { unit })));
    this.#made = new Map();
    made.forEach((each, place) => {
      const flag = this.flags[place] as string;
      if (each.status === "fulfilled") this.#made.set(flag, each.value);
      this.#decisions.keep(flag, unit, each.status === "fulfilled" ? each.value.decisionId : null);
    });
  }

  resolveStringEvaluation(flag: string, standIn: string): ResolutionDetails<string> {
    return this.#resolve(flag, standIn, "string");
  }
  resolveNumberEvaluation(flag: string, standIn: number): ResolutionDetails<number> {
    return this.#resolve(flag, standIn, "number");
  }
  resolveBooleanEvaluation(flag: string, standIn: boolean): ResolutionDetails<boolean> {
    return this.#resolve(flag, standIn, "boolean");
  }
  resolveObjectEvaluation<T extends JsonValue>(flag: string, standIn: T): ResolutionDetails<T> {
    return this.#resolve(flag, standIn, "object");
  }

  #resolve<T>(flag: string, standIn: T, type: string): ResolutionDetails<T> {
    const decision = this.#made.get(flag);
    if (decision === undefined) return { value: standIn, reason: StandardResolutionReasons.ERROR, errorCode: ErrorCode.FLAG_NOT_FOUND };
    return resolution<T>(decision, type, standIn, StandardResolutionReasons, ErrorCode) as ResolutionDetails<T>;
  }

  /** Report the reward of the flag's decision; the default reward is 1. */
  track(name: string, context: EvaluationContext = {}, details: TrackingEventDetails = {}): void {
    const id = typeof details["decision_id"] === "string" ? details["decision_id"] : this.#decisions.take(name, context.targetingKey);
    if (id !== null) void this.client.feedback(id, typeof details["loss"] === "number" ? { loss: details["loss"] } : { reward: details.value ?? 1 });
  }

  onClose(): Promise<void> {
    return this.client.close();
  }
}
