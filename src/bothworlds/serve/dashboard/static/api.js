// Sends the requests of the page of the wire API to the service that the page comes from.
"use strict";

async function send(form) {
  const shown = form.querySelector("pre");
  const key = document.getElementById("api-key");
  const headers = {};
  const query = new URLSearchParams();
  let path = form.dataset.path;
  if (key && key.value) headers.Authorization = `Bearer ${key.value}`;
  for (const input of form.querySelectorAll("input[data-in]")) {
    if (input.dataset.in === "path") {
      path = path.replace(`{${input.name}}`, encodeURIComponent(input.value));
    } else if (input.value && input.dataset.in === "query") {
      query.set(input.name, input.value);
    } else if (input.value) {
      headers[input.name] = input.value;
    }
  }
  const body = form.querySelector("textarea");
  if (body) headers["Content-Type"] = "application/json";
  const address = query.size ? `${path}?${query}` : path;
  shown.hidden = false;
  shown.textContent = "…";
  try {
    const answer = await fetch(address, {
      method: form.dataset.method, headers, body: body ? body.value : undefined,
      credentials: "omit",
    });
    const text = await answer.text();
    shown.textContent = `${answer.status} ${answer.statusText}\n${readable(text)}`;
  } catch (error) {
    shown.textContent = `The request failed: ${error.message}`;
  }
}

function readable(text) {
  try {
    return JSON.stringify(JSON.parse(text), null, 2);
  } catch {
    return text.length > 20000 ? `${text.slice(0, 20000)}\n…` : text;
  }
}

for (const form of document.querySelectorAll(".api form")) {
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    send(form);
  });
}
