// A relay on your own server: the browser talks to your origin, and the key stays here.
//   BOTHWORLDS_URL=http://127.0.0.1:8080 BOTHWORLDS_KEY=bw_... node relay.mjs
import { createServer } from "node:http";

const { BOTHWORLDS_URL, BOTHWORLDS_KEY, PORT = "3000" } = process.env;
const ALLOWED = /^POST \/v1\/(experiments\/[^/?]+\/decisions|feedback:batch)$/;

export async function relay(request, response) {
  const site = request.headers["sec-fetch-site"] ?? "same-origin";
  if (site !== "same-origin" || !ALLOWED.test(`${request.method} ${request.url}`)) return response.writeHead(403).end();
  const chunks = [];
  for await (const chunk of request) if (chunks.push(chunk) > 64) return response.writeHead(413).end();
  const headers = { "content-type": "application/json", authorization: `Bearer ${BOTHWORLDS_KEY}` };
  if (request.headers["idempotency-key"]) headers["idempotency-key"] = request.headers["idempotency-key"];
  const answer = await fetch(BOTHWORLDS_URL + request.url, { method: "POST", headers, body: Buffer.concat(chunks) }).catch(() => null);
  if (answer === null) return response.writeHead(502).end();
  response.writeHead(answer.status, { "content-type": "application/json" }).end(await answer.text());
}

if (process.argv[1] === new URL(import.meta.url).pathname) createServer(relay).listen(Number(PORT), "127.0.0.1");
