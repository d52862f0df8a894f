// Requests to the server: the model, and answers as they are made.

let key = sessionStorage.getItem("tapegrad-key") ?? "";

export function setKey(next) {
  key = next;
  sessionStorage.setItem("tapegrad-key", key);
}

const headers = () => ({ "Content-Type": "application/json", ...(key && { Authorization: `Bearer ${key}` }) });

/** A server's refusal; status 0: it cannot be reached. */
export class Refused extends Error {
  constructor(status, message) {
    super(message);
    this.status = status;
  }
}

/** The result of a promise of the network, whose errors are of several kinds. */
async function reachable(promise) {
  try {
    return await promise;
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new Refused(0, error.message);
  }
}

async function ask(path, options) {
  const response = await reachable(fetch(path, { ...options, headers: headers() }));
  if (response.ok) return response;
  const body = await response.json().catch(() => null);
  throw new Refused(response.status, body?.error?.message ?? `HTTP ${response.status}`);
}

/** [{id, meta: {chat, n_ctx, …}}, …]: the model, and the same with each of its adapters */
export async function models() {
  return (await (await ask("v1/models")).json()).data;
}

/** The events of a stream, parsed; ends at [DONE]. */
async function* events(response) {
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let text = "";
  for (;;) {
    const { value, done } = await reachable(reader.read());
    if (done) throw new Refused(0, "");
    text += value;
    for (let end; (end = text.indexOf("\n\n")) >= 0; text = text.slice(end + 2)) {
      const data = text.slice(0, end).replace(/^data: /, "");
      if (data === "[DONE]") return;
      const event = JSON.parse(data);
      if (event.error) throw new Refused(200, event.error.message);
      yield event;
    }
  }
}

const bytesOfLegacy = (token) =>
  token.startsWith("bytes:")
    ? token.slice(6).split("\\x").slice(1).map((hex) => parseInt(hex, 16))
    : [...new TextEncoder().encode(token)];

/** The tokens of an event of /v1/completions as those of a chat are. */
function legacyTokens(logprobs) {
  return (logprobs?.tokens ?? []).map((token, i) => ({
    token,
    logprob: logprobs.token_logprobs[i],
    bytes: bytesOfLegacy(token),
    top_logprobs: Object.entries(logprobs.top_logprobs[i] ?? {})
      .map(([name, logprob]) => ({ token: name, logprob }))
      .sort((a, b) => b.logprob - a.logprob),
  }));
}

/** Pieces of an answer, {text, tokens, finish, seed}: of a chat of `messages`, or of a text that goes on. */
export async function* answer({ messages, prompt, options, tops, signal }) {
  const body = { ...options, stream: true };
  if (messages) Object.assign(body, { messages, logprobs: true, top_logprobs: tops });
  else Object.assign(body, { prompt, logprobs: tops });
  const path = messages ? "v1/chat/completions" : "v1/completions";
  const response = await ask(path, { method: "POST", body: JSON.stringify(body), signal });
  for await (const event of events(response)) {
    signal.throwIfAborted(); // several events may have come at once
    const choice = event.choices[0];
    yield {
      text: (messages ? choice.delta.content : choice.text) ?? "",
      tokens: messages ? (choice.logprobs?.content ?? []) : legacyTokens(choice.logprobs),
      finish: choice.finish_reason,
      seed: event.seed,
    };
  }
}
