// Asks the server. The token stays in this tab: it is sent in a header, never in an address or a cookie.

const KEY = 'seiretsu-token';

export class Refused extends Error {
  constructor(status, message) {
    super(message);
    this.status = status;
  }
}

export const token = {
  get: () => sessionStorage.getItem(KEY) ?? '',
  set: (value) => sessionStorage.setItem(KEY, value),
  clear: () => sessionStorage.removeItem(KEY),
};

function headers(more = {}) {
  return token.get() ? { ...more, Authorization: `Bearer ${token.get()}` } : more;
}

async function refusal(response) {
  let message = `the server answers ${response.status}`;
  try {
    message = (await response.json()).message ?? message;
  } catch {
    // an answer of a proxy, not of Seiretsu
  }
  return new Refused(response.status, message);
}

const encoded = (parts) => parts.map(encodeURIComponent).join('/');

export async function get(parts, query = {}, signal) {
  const asked = new URLSearchParams(Object.entries(query).flatMap(([name, value]) => [value].flat().filter((each) => each !== undefined && each !== '').map((each) => [name, each])));
  const response = await fetch(`/api/${encoded(parts)}${asked.size ? `?${asked}` : ''}`, { headers: headers(), signal, cache: 'no-store' });
  if (!response.ok) throw await refusal(response);
  return response.json();
}

const FIRST_WAIT = 500, LONGEST_WAIT = 10_000;

// Follows topics: calls `rows` with each event, `state` with 'live' or 'waiting', and `refused` if there is no right.
// What was missed while there was no connection is sent by the server, as far as it is kept.
export class Stream {
  constructor(topics, { rows, state, refused }) {
    this.topics = topics;
    this.told = { rows, state, refused };
    this.last = '';
    this.wait = FIRST_WAIT;
    this.stopped = new AbortController();
    this.run();
  }

  stop() {
    this.stopped.abort();
  }

  async run() {
    while (!this.stopped.signal.aborted) {
      try {
        await this.read();
      } catch (error) {
        if (this.stopped.signal.aborted) return;
        if (error instanceof Refused && [400, 401, 403].includes(error.status)) {
          this.told.refused(error);
          return;
        }
        this.told.state('waiting');
      }
      await new Promise((go) => setTimeout(go, this.wait * (0.75 + Math.random() / 2)));
      this.wait = Math.min(this.wait * 2, LONGEST_WAIT);
    }
  }

  async read() {
    const asked = new URLSearchParams(this.topics.map((each) => ['topic', each]));
    const more = this.last ? { 'Last-Event-ID': this.last } : {};
    const response = await fetch(`/api/stream?${asked}`, { headers: headers(more), signal: this.stopped.signal, cache: 'no-store' });
    if (!response.ok) throw await refusal(response);
    const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
    let text = '';
    for (;;) {
      const { done, value } = await reader.read();
      if (done) return;
      this.wait = FIRST_WAIT;
      this.told.state('live');
      text += value;
      for (let end; (end = text.indexOf('\n\n')) >= 0; text = text.slice(end + 2)) this.event(text.slice(0, end));
    }
  }

  event(text) {
    let data = '';
    for (const line of text.split('\n')) {
      if (line.startsWith('id: ')) this.last = line.slice(4);
      else if (line.startsWith('data: ')) data = line.slice(6);
    }
    if (data) this.told.rows(JSON.parse(data));
  }
}
