/**
 * OpenFeature provider for servers: a flag is an experiment, its variants are the arms.
 *
 *     await OpenFeature.setProviderAndWait(new BothworldsProvider(new Client(url, { key })));
 *     const client = OpenFeature.getClient();
 *     const headline = await client.getStringValue("headline", "blue", { targetingKey: user });
 *     client.track("headline", { targetingKey: user }, { value: 1 });
 *
 * `track` with the flag's name reports the reward of the last evaluation for that targeting key.
 */
import { OpenFeatureEventEmitter, StandardResolutionReasons, ErrorCode } from "@openfeature/server-sdk";
import type { EvaluationContext, JsonValue, Provider, ResolutionDetails, TrackingEventDetails } from "@openfeature/server-sdk";
import { Client } from "./index.js";
import { Remembered, resolution } from "./openfeature.js";

export class BothworldsProvider implements Provider {
  readonly metadata = { name: "bothworlds" } as const;
  readonly runsOn = "server" as const;
  readonly events = new OpenFeatureEventEmitter();
  readonly #decisions = new Remembered();

  constructor(readonly client: Client) {}

  resolveStringEvaluation(flag: string, standIn: string, context: EvaluationContext): Promise<ResolutionDetails<string>> {
    return this.#resolve(flag, standIn, context, "string");
  }
  resolveNumberEvaluation(flag: string, standIn: number, context: EvaluationContext): Promise<ResolutionDetails<number>> {
    return this.#resolve(flag, standIn, context, "number");
  }
  resolveBooleanEvaluation(flag: string, standIn: boolean, context: EvaluationContext): Promise<ResolutionDetails<boolean>> {
    return this.#resolve(flag, standIn, context, "boolean");
  }
  resolveObjectEvaluation<T extends JsonValue>(flag: string, standIn: T, context: EvaluationContext): Promise<ResolutionDetails<T>> {
    return this.#resolve(flag, standIn, context, "object");
  }

  async #resolve<T>(flag: string, standIn: T, context: EvaluationContext, type: string): Promise<ResolutionDetails<T>> {
    const unit = context.targetingKey;
    try {
      const decision = await this.client.decide(flag, unit === undefined ? {} : { unit });
      this.#decisions.keep(flag, unit, decision.decisionId);
      return resolution<T>(decision, type, standIn, StandardResolutionReasons, ErrorCode) as ResolutionDetails<T>;
    } catch (error) {
      this.#decisions.keep(flag, unit, null);
      const message = error instanceof Error ? error.message : String(error);
      return { value: standIn, reason: StandardResolutionReasons.ERROR, errorCode: ErrorCode.GENERAL, errorMessage: message };
    }
  }

  /** Report the reward of the last evaluation; the default reward is 1. */
  track(name: string, context: EvaluationContext = {}, details: TrackingEventDetails = {}): void {
    const id = typeof details["decision_id"] === "string" ? details["decision_id"] : this.#decisions.take(name, context.targetingKey);
    if (id !== null) void this.client.feedback(id, typeof details["loss"] === "number" ? { loss: details["loss"] } : { reward: details.value ?? 1 });
  }

  onClose(): Promise<void> {
    return this.client.close();
  }
}
