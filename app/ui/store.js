// The rows that the server has sent, by topic. Views are told of changes once for each picture that the browser draws.

import { Stream } from './api.js';

export const store = new EventTarget();
store.queues = new Map();
store.cohorts = new Map();
store.namespaces = new Map();
store.workloads = new Map();
store.state = 'waiting';
store.updated = 0;
store.loaded = new Set();
// The use of each queue since this page was opened: [seconds, used by resource] of all queues.
store.seen = [];

let stream = null, followed = '', pending = false;
const key = (row) => (row.namespace ? `${row.namespace}/${row.name}` : row.name);

function table(topic) {
  const kind = topic.split(':')[0];
  return { queues: store.queues, cohorts: store.cohorts, namespace: store.namespaces, workload: store.workloads }[kind];
}

function rows(event) {
  const kept = table(event.topic);
  if (event.all) {
    const namespace = event.topic.startsWith('namespace:') ? event.topic.slice('namespace:'.length) : null;
    for (const [name, row] of kept) if (namespace === null ? !event.topic.startsWith('workload:') : row.namespace === namespace) kept.delete(name);
  }
  for (const row of event.all ?? event.put) kept.set(key(row), row);
  for (const name of event.gone ?? []) kept.delete(name);
  store.updated = event.at;
  if (event.topic === 'queues') remember(event.at);
  store.loaded.add(event.topic);
  changed();
}

const REMEMBERED = 720, APART = 5, SINGLE = 40;

// Keeps what is in use now, for the chart of a page without a history: by queue, or by cohort where there are many.
function remember(at) {
  if (store.seen.length && at - store.seen.at(-1)[0] < APART) return;
  const cells = new Map(), many = store.queues.size > SINGLE;
  for (const row of store.queues.values()) {
    for (const cell of row.cells) {
      const name = `${many ? row.cohort || 'without-cohort' : row.name} ${cell.resource}`;
      cells.set(name, (cells.get(name) ?? 0) + cell.used + cell.notReady);
    }
  }
  store.seen.push([at, cells]);
  if (store.seen.length > REMEMBERED) store.seen.shift();
}

export function changed() {
  if (pending) return;
  pending = true;
  // a tab that is not seen draws no pictures, and need not
  requestAnimationFrame(() => {
    pending = false;
    store.dispatchEvent(new Event('change'));
  });
}

// Follows exactly these topics from now on.
export function follow(topics, refused) {
  const wanted = topics.join(' ');
  if (wanted === followed && stream) return;
  stream?.stop();
  followed = wanted;
  for (const topic of topics) store.loaded.delete(topic);
  stream = topics.length ? new Stream(topics, {
    rows,
    refused,
    state: (state) => {
      if (store.state !== state) {
        store.state = state;
        changed();
      }
    },
  }) : null;
}

export function stop() {
  stream?.stop();
  stream = null;
  for (const each of [store.queues, store.cohorts, store.namespaces, store.workloads, store.loaded]) each.clear();
}
