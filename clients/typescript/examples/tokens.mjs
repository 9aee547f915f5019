// Decide tokens from your own server: the key stays here, the page gets a token of ten minutes.
//   BOTHWORLDS_URL=https://bandit.example.com BOTHWORLDS_KEY=bw_... node tokens.mjs
// Ask for your own session or a CAPTCHA first if only some visitors may take part.
import { createServer } from "node:http";

const { BOTHWORLDS_URL, BOTHWORLDS_KEY, PORT = "3000" } = process.env;
const ASKED = JSON.stringify({ experiment: "headline", seconds: 600 });

export async function mint(request, response) {
  const site = request.headers["sec-fetch-site"] ?? "same-origin";
  if (site !== "same-origin" || request.method !== "POST") return response.writeHead(403).end();
  const headers = { "content-type": "application/json", authorization: `Bearer ${BOTHWORLDS_KEY}` };
  const answer = await fetch(`${BOTHWORLDS_URL}/v1/decide-tokens`, { method: "POST", headers, body: ASKED }).catch(() => null);
  if (!answer?.ok) return response.writeHead(502).end();
  const { token } = await answer.json();
  response.writeHead(200, { "content-type": "text/plain", "cache-control": "no-store" }).end(token);
}

if (process.argv[1] === new URL(import.meta.url).pathname) createServer(mint).listen(Number(PORT), "127.0.0.1");
