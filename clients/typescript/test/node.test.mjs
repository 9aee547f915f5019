// The client against a real service (SERVICE) and against servers that misbehave.
import assert from "node:assert/strict";
import { createServer } from "node:http";
import { test } from "node:test";
import { OpenFeature } from "@openfeature/server-sdk";
import { Client, ServiceError } from "../dist/index.js";
import { BothworldsProvider } from "../dist/openfeature-server.js";

const SERVICE = process.env.SERVICE;
const PATIENT = { timeout: 60_000 };

async function answering(status, body, headers = { "content-type": "application/json" }) {
  let asked = 0;
  const server = createServer((request, response) => {
    asked += 1;
    request.resume().on("end", () => response.writeHead(status, headers).end(body));
  });
  await new Promise((ready) => server.listen(0, "127.0.0.1", ready));
  return { url: `http://127.0.0.1:${server.address().port}`, asked: () => asked, close: () => server.close() };
}

async function learned(experiment) {
  return (await (await fetch(`${SERVICE}/v1/experiments/${experiment}`)).json()).learned;
}

test("a decision, its probability, and feedback that is learned once", async () => {
  const client = new Client(SERVICE, PATIENT);
  const before = await learned("headline");
  const decision = await client.decide("headline", { unit: "ann" });
  assert.ok(["blue", "green"].includes(decision.arm));
  assert.ok(decision.probability > 0 && decision.probability <= 1);
  assert.equal(await client.feedback(decision, { reward: 1 }), "learned");
  assert.equal(await client.feedback(decision.decisionId, { reward: 1 }), "duplicate");
  assert.equal(await learned("headline"), before + 1);
  await client.close();
});

test("a repeated request with one key gives one decision", async () => {
  const client = new Client(SERVICE, PATIENT);
  const twice = await Promise.all([1, 2].map(() => client.decide("headline", { idempotencyKey: "order-17" })));
  assert.equal(twice[0].decisionId, twice[1].decisionId);
});

test("many decisions, and their feedback in one request", async () => {
  let requests = 0;
  const counting = (...given) => { requests += 1; return fetch(...given); };
  const client = new Client(SERVICE, { ...PATIENT, fetch: counting });
  const made = await client.decideMany("headline", 20);
  assert.equal(new Set(made.map((each) => each.decisionId)).size, 20);
  const told = await Promise.all(made.map((each) => client.feedback(each, { loss: 0.5 })));
  assert.deepEqual(told, Array(20).fill("learned"));
  assert.equal(requests, 2);
});

test("only arms that are available", async () => {
  const client = new Client(SERVICE, PATIENT);
  const decision = await client.decide("headline", { available: ["green"] });
  assert.deepEqual([decision.arm, decision.probability], ["green", 1]);
});

test("advice of experts, an expert that is asleep, and their weights", async () => {
  const client = new Client(SERVICE, PATIENT);
  const advice = { model: "blue", rules: { blue: 0.25, green: 0.75 } };
  const decision = await client.decide("advised", { advice, vector: true });
  assert.deepEqual(Object.keys(decision.experts).sort(), ["model", "rules"]);
  assert.ok(Math.abs(Object.values(decision.experts).reduce((a, b) => a + b) - 1) < 1e-9);
  assert.ok(Math.abs(decision.probabilities[decision.arm] - decision.probability) < 1e-12);
  assert.equal(await client.feedback(decision, { loss: 1 }), "learned");
  const plain = await client.decide("advised", { advice });
  assert.deepEqual([plain.experts, plain.probabilities], [undefined, undefined]);
  const alone = await client.decide("advised", { advice: { rules: "green" }, asleep: ["model"] });
  assert.deepEqual([alone.arm, alone.probability], ["green", 1]);
  const many = await client.decideMany("advised", 3, { advice });
  assert.deepEqual(await Promise.all(many.map((each) => client.feedback(each, { reward: 1 }))), Array(3).fill("learned"));
});

test("decisions in segments, and a segment that is refused", async () => {
  const client = new Client(SERVICE, PATIENT);
  const segment = "de/mobile";
  const one = await client.decide("headline", { segment });
  assert.equal(await client.feedback(one, { reward: 1 }), "learned");
  assert.equal((await client.decideMany("headline", 2, { segment })).length, 2);
  const { segments } = await (await fetch(`${SERVICE}/v1/experiments/headline/segments`)).json();
  const found = segments.find((each) => each.name === segment);
  assert.deepEqual([found.decided, found.learned], [3, 1]);
  await assert.rejects(client.decide("headline", { segment: "x".repeat(201) }), { code: "invalid_request" });
});

test("wrong advice is refused and changes nothing", async () => {
  const client = new Client(SERVICE, PATIENT);
  const rounds = async () => (await (await fetch(`${SERVICE}/v1/experiments/advised`)).json()).round;
  const before = await rounds();
  for (const [ask, code] of [
    [{}, "advice_missing"],
    [{ advice: { model: "blue" } }, "advice_missing"],
    [{ advice: { model: "blue", rules: "red" } }, "advice_invalid"],
    [{ advice: { model: "blue", rules: "green", oracle: "blue" } }, "advice_invalid"],
    [{ advice: { model: { blue: 0.5 }, rules: "green" } }, "advice_invalid"],
    [{ advice: { model: { blue: -1, green: 2 }, rules: "green" } }, "advice_invalid"],
    [{ advice: { model: "blue", rules: "green" }, asleep: ["oracle"] }, "advice_invalid"],
    [{ advice: { model: "blue", rules: "green" }, asleep: ["model"] }, "advice_invalid"],
  ]) {
    // A default is for a service that is away, and not for a wrong request.
    await assert.rejects(client.decide("advised", { ...ask, default: "blue" }), { code, status: 400 }, JSON.stringify(ask));
  }
  await assert.rejects(client.decide("headline", { advice: { model: "blue" } }), { code: "advice_invalid" });
  assert.equal(await rounds(), before);
});

test("shares that the available arms cannot have are refused", async () => {
  const client = new Client(SERVICE, PATIENT);
  const decision = await client.decide("shared", { vector: true });
  assert.equal(decision.probabilities.blue, 0.2);
  await assert.rejects(client.decide("shared", { available: ["green"] }), { code: "shares_conflict", status: 409 });
});

test("a refusal is raised, also when there is a default", async () => {
  const client = new Client(SERVICE, PATIENT);
  await assert.rejects(client.decide("no such experiment", { default: "blue" }), { code: "experiment_not_found", status: 404 });
  const lost = [];
  const listening = new Client(SERVICE, { ...PATIENT, onLost: (error) => lost.push(error.code) });
  assert.equal(await listening.feedback("no-such-id", { reward: 1 }), "refused");
  assert.deepEqual(lost, ["bad_token"]);
  assert.throws(() => client.feedback("x", { reward: NaN }), TypeError);
  assert.throws(() => new Client("ftp://127.0.0.1"), TypeError);
});

const STRANGE = {
  "an empty object": [200, "{}"], "a list": [200, "[]"], "null": [200, "null"], "nothing": [200, ""], "a string": [200, '"x"'],
  "wrong types": [201, '{"arm":7,"decision_id":9,"probability":0.5}'],
  "a mode that is none": [201, '{"arm":"a","decision_id":"b","probability":0.5,"expires_at":4e9,"mode":7}'],
  "an end that is no time": [201, '{"arm":"a","decision_id":"b","probability":0.5,"expires_at":"x","mode":"learn"}'],
  "a request timeout": [408, '{"code":"body_timeout","detail":"x"}', { "content-type": "application/problem+json" }],
  "a gateway with codes of its own": [502, '{"code":"bad_gateway"}'],
  "a detail that is no text": [503, '{"code":"overloaded","detail":{"a":1}}'],
  "a probability of none": [201, '{"arm":"a","decision_id":"b","probability":null}'],
  "a page of a proxy": [502, "<html>", { "content-type": "text/html" }],
  "a redirect": [302, "", { location: "/elsewhere" }],
  "another service's error": [500, '{"error":"x"}'], "a timeout of a proxy": [504, ""], "a code that is no text": [503, '{"code":[1]}'],
};
for (const [name, [status, body, headers]] of Object.entries(STRANGE)) {
  test(`the default stands in for ${name}`, async () => {
    const server = await answering(status, body, headers);
    const client = new Client(server.url, { timeout: 60_000, retries: 1 });
    const decision = await client.decide("headline", { default: "safe" });
    assert.deepEqual([decision.arm, decision.decisionId, decision.mode], ["safe", null, "default"]);
    assert.ok(decision.error instanceof ServiceError);
    assert.equal(await client.feedback(decision, { reward: 1 }), "default");
    await assert.rejects(client.decide("headline"), ServiceError);
    server.close();
  });
}

test("results that are none lose the feedback, once each", async () => {
  for (const results of ["[null,null]", '[{"status":"learned"},null]', '[{"status":1},{"status":2}]', "7"]) {
    const server = await answering(200, `{"results":${results}}`);
    const lost = [];
    const client = new Client(server.url, { timeout: 60_000, retries: 0, onLost: (error, id) => lost.push([id, error.code]) });
    assert.deepEqual(await Promise.all(["a", "b"].map((id) => client.feedback(id, { loss: 1 }))), ["refused", "refused"]);
    assert.deepEqual(lost, [["a", "unavailable"], ["b", "unavailable"]]);
    server.close();
  }
});

test("a service that is away is tried again, and the default comes in time", async () => {
  const server = await answering(503, '{"code":"overloaded","detail":"Try later."}', { "content-type": "application/problem+json" });
  const client = new Client(server.url, { timeout: 60_000, retries: 3 });
  assert.equal((await client.decide("headline", { default: "safe" })).error.code, "overloaded");
  assert.equal(server.asked(), 4);
  server.close();
  const silent = createServer(() => undefined);
  await new Promise((ready) => silent.listen(0, "127.0.0.1", ready));
  const waiting = new Client(`http://127.0.0.1:${silent.address().port}`, { timeout: 100 });
  assert.equal((await waiting.decide("headline", { default: "safe" })).arm, "safe");
  silent.closeAllConnections();
  silent.close();
});

test("OpenFeature: flags are experiments, and track() is the reward", async () => {
  await OpenFeature.setProviderAndWait(new BothworldsProvider(new Client(SERVICE, PATIENT)));
  const flags = OpenFeature.getClient();
  const context = { targetingKey: "bob" };
  const before = await learned("headline");
  const details = await flags.getStringDetails("headline", "none", context);
  assert.ok(["blue", "green"].includes(details.value));
  assert.equal(details.variant, details.value);
  assert.ok(details.flagMetadata.probability > 0);
  flags.track("headline", context, { value: 1 });
  flags.track("headline", context, { value: 1 }); // Reported once.
  flags.track("headline", { targetingKey: "eve" }, { value: 1 }); // Not decided for her.
  assert.equal(await flags.getNumberValue("headline", 7, context), 7); // The arm is no number.
  assert.equal(await flags.getStringValue("no such flag", "none", context), "none");
  await OpenFeature.close();
  assert.equal(await learned("headline"), before + 1);
});
