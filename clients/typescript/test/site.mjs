// The site of the browser test: its own pages, and the relay and the tokens of the examples.
import { readFile } from "node:fs/promises";
import { createServer } from "node:http";
import { relay } from "../examples/relay.mjs";
import { mint } from "../examples/tokens.mjs";

const PAGE = "<!doctype html><title>shop</title><script type=module src=/page.js></script>";
createServer(async (request, response) => {
  if (request.url === "/") return response.writeHead(200, { "content-type": "text/html" }).end(PAGE);
  if (request.url === "/page.js") {
    const script = await readFile(new URL("../dist/test/page.js", import.meta.url));
    return response.writeHead(200, { "content-type": "text/javascript" }).end(script);
  }
  if (request.url === "/bandit-token") return mint(request, response);
  return relay(request, response);
}).listen(Number(process.env.PORT ?? "0"), "127.0.0.1", function () { console.log(`http://127.0.0.1:${this.address().port}`); });
