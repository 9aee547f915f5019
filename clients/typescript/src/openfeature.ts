/** What the two OpenFeature providers share: remembered decisions, and values as details. */
import type { Decision } from "./index.js";

const MOST = 10_000;

/** The last decision of every flag and targeting key; each is reported once. */
export class Remembered {
  readonly #held = new Map<string, string>();

  keep(flag: string, unit: string | undefined, id: string | null): void {
    const place = JSON.stringify([flag, unit ?? null]);
    this.#held.delete(place);
    if (id !== null) this.#held.set(place, id);
    if (this.#held.size > MOST) this.#held.delete(this.#held.keys().next().value as string);
  }

  take(flag: string, unit: string | undefined): string | null {
    const place = JSON.stringify([flag, unit ?? null]);
    const found = this.#held.get(place) ?? null;
    this.#held.delete(place);
    return found;
  }
}

interface Words { STATIC: string; SPLIT: string; ERROR: string }

/** Return the details of an evaluation: the value the arm carries, or its name. */
export function resolution<T>(decision: Decision, type: string, standIn: T, reasons: Words, codes: { TYPE_MISMATCH: string }): unknown {
  const value = decision.value ?? decision.arm;
  if (typeof value !== type) {
    return { value: standIn, reason: reasons.ERROR, errorCode: codes.TYPE_MISMATCH, errorMessage: `The arm carries a ${typeof value}, not a ${type}.` };
  }
  const fixed = decision.mode === "pinned" || decision.mode === "shadow";
  return {
    value, variant: decision.arm, reason: fixed ? reasons.STATIC : reasons.SPLIT,
    flagMetadata: { decision_id: decision.decisionId ?? "", probability: decision.probability ?? 0, mode: decision.mode },
  };
}
