// What the test page runs in a browser.
import { OpenFeature } from "@openfeature/web-sdk";
import { Client } from "../src/index.js";
import { BothworldsWebProvider } from "../src/openfeature-web.js";

Object.assign(globalThis, { Client, BothworldsWebProvider, OpenFeature });
