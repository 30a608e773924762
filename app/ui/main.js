// The frame of the page: who is logged in, which view the address names, and what is followed for it.

import { Refused, get, token } from './api.js';
import { h, say, show, svg } from './dom.js';
import { setNow, span, now } from './format.js';
import { follow, stop, store } from './store.js';
import { find } from './parts/find.js';
import { clusters } from './views/clusters.js';
import { job } from './views/job.js';
import { overview } from './views/overview.js';
import { preemptions } from './views/preemptions.js';
import { queue } from './views/queue.js';
import { topology } from './views/topology.js';
import { usage } from './views/usage.js';
import { whatIf } from './views/whatif.js';

const VIEWS = { '': overview, queues: queue, jobs: job, preemptions, usage, topology, clusters, 'what-if': whatIf };
const THEME = 'seiretsu-theme';
const main = document.getElementById('main');

let me = null, view = null, shownAt = '';

export function route() {
  const [path, query] = location.hash.replace(/^#\/?/, '').split('?');
  return { parts: path.split('/').filter(Boolean).map(decodeURIComponent), query: new URLSearchParams(query ?? '') };
}

function links() {
  const entries = [['', 'Overview', true], ['preemptions', 'Preemptions', true], ['usage', 'Usage', true], ['what-if', 'What if', me.may.clusterQueues], ['topology', 'Topology', me.topologies.length > 0], ['clusters', 'Clusters', me.may.workers && me.workers > 0]];
  const here = route().parts[0] ?? '', at = here === 'queues' || here === 'jobs' ? '' : here;
  return entries.filter(([, , wanted]) => wanted).map(([path, text]) => h('a', { href: `#/${path}`, 'aria-current': path === at && 'page' }, text));
}

function theme(next) {
  const root = document.documentElement;
  const wanted = next ?? localStorage.getItem(THEME) ?? 'system';
  if (wanted === 'system') root.removeAttribute('data-theme'); else root.setAttribute('data-theme', wanted);
  localStorage.setItem(THEME, wanted);
  return wanted;
}

function themeButton() {
  const words = { system: 'As the system', light: 'Light', dark: 'Dark' };
  const button = h('button', { class: 'quiet', 'data-focus': 'theme', onclick: () => {
    const order = ['system', 'light', 'dark'];
    const chosen = theme(order[(order.indexOf(theme()) + 1) % 3]);
    label(chosen);
    say(`Colours: ${words[chosen]}`);
    dispatchEvent(new Event('theme'));
  } });
  const label = (chosen) => {
    const path = { system: 'M8 1a7 7 0 1 0 0 14V1z M8 2.5a5.500 5.500 0 0 1 0 11z', light: 'M8 4.500a3.500 3.500 0 1 0 0 7a3.500 3.500 0 1 0 0-7zM7.300 0h1.400v2.800H7.300zM7.300 13.200h1.400V16H7.300zM0 7.300h2.800v1.400H0zM13.200 7.300H16v1.400h-2.800z', dark: 'M6.500 1.200a7 7 0 1 0 8.300 8.300A5.700 5.700 0 0 1 6.500 1.200z' }[chosen];
    show(button, svg('svg', { viewBox: '0 0 16 16', 'aria-hidden': 'true' }, svg('path', { d: path }), chosen === 'system' && svg('circle', { cx: 8, cy: 8, r: 6.3, fill: 'none', stroke: 'currentcolor', 'stroke-width': 1.4 })));
    button.title = `Colours: ${words[chosen]}`;
    button.setAttribute('aria-label', button.title);
  };
  label(theme());
  return button;
}

function header() {
  show(document.getElementById('top'),
    h('a', { class: 'brand', href: '#/' }, h('span', { class: 'mark', 'aria-hidden': 'true' }), 'Seiretsu'),
    me && h('nav', { 'aria-label': 'Views' }, links()),
    me && find(me),
    me && h('span', { id: 'live', class: 'live' }),
    themeButton(),
    me && h('button', { class: 'quiet', 'data-focus': 'leave', title: `Logged in as ${me.user}`, onclick: leave }, 'Log out'));
  if (me) live();
}

function live() {
  const place = document.getElementById('live');
  if (!place) return;
  const waits = store.state !== 'live';
  place.className = waits ? 'live waiting' : 'live';
  place.textContent = waits ? 'Connecting' : 'Live';
  place.title = store.updated ? `Last change ${span(now() - store.updated)} ago` : '';
}

function leave() {
  token.clear();
  stop();
  me = null;
  start();
}

function login(problem) {
  const field = h('input', { id: 'token', type: 'password', autocomplete: 'off', required: true, 'aria-describedby': 'how', spellcheck: 'false' });
  const form = h('form', { class: 'login', onsubmit: (event) => {
    event.preventDefault();
    token.set(field.value.trim());
    start();
  } },
  h('h1', null, 'Log in'),
  problem && h('p', { class: 'problem', role: 'alert' }, problem),
  h('label', { for: 'token' }, 'Token'), field,
  h('p', { id: 'how', class: 'dim' }, 'A token of your account or of a ServiceAccount. You see what its rights show in kubectl. It stays in this tab, and is gone when the tab is closed.'),
  h('pre', null, 'kubectl create token NAME -n NAMESPACE'),
  h('button', { class: 'main' }, 'Log in'));
  show(main, form);
  field.focus();
}

export function refused(error) {
  if (error instanceof Refused && error.status === 401) {
    token.clear();
    stop();
    me = null;
    header();
    login(error.message);
  } else show(main, h('p', { class: 'problem', role: 'alert' }, error.message));
}

function topics(parts) {
  const wanted = me.may.clusterQueues ? ['queues', ...(me.may.cohorts ? ['cohorts'] : [])] : me.namespaces.slice(0, 15).map((each) => `namespace:${each}`);
  if (parts[0] === 'jobs' && parts.length === 3) wanted.push(`workload:${parts[1]}/${parts[2]}`);
  return wanted;
}

function draw() {
  if (!me) return;
  const { parts, query } = route();
  const at = location.hash;
  if (at !== shownAt) scrollTo(0, 0);
  shownAt = at;
  view?.leave?.();
  follow(topics(parts), refused);
  header();
  const made = VIEWS[parts[0] ?? ''] ?? (() => ({ title: 'Not found', element: h('p', { class: 'problem' }, 'There is no such view.') }));
  view = made({ me, parts: parts.slice(1), query, refused });
  document.title = `${view.title} – Seiretsu`;
  show(main, view.element);
  view.update?.();
}

async function start() {
  const given = location.hash.match(/^#token=(.+)$/);
  if (given) {
    token.set(decodeURIComponent(given[1]));
    history.replaceState(null, '', '#/');
  }
  header();
  try {
    me = await get(['me'], { namespace: localStorage.getItem('seiretsu-namespace') ?? undefined });
    setNow(me.now);
  } catch (error) {
    if (error instanceof Refused && error.status === 401) login(token.get() ? error.message : '');
    else {
      show(main, h('p', { class: 'problem', role: 'alert' }, `${error.message}. It is tried again.`));
      setTimeout(start, 3000);
    }
    return;
  }
  draw();
}

theme();
addEventListener('hashchange', () => (location.hash.startsWith('#token=') ? start() : location.hash === '#main' ? main.focus() : (draw(), main.focus({ preventScroll: true }))));
store.addEventListener('change', () => {
  live();
  view?.update?.();
});
addEventListener('keydown', (event) => {
  if (event.key === '/' && !event.target.matches('input, select, textarea')) {
    event.preventDefault();
    document.querySelector('#find')?.focus();
  }
});
start();
