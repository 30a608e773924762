// One job: what it does now and what would let it start, its story, its YAML and its events. The address can be sent.

import { get } from '../api.js';
import { h, say, show } from '../dom.js';
import { clock, count, short, since, span } from '../format.js';
import { store } from '../store.js';
import { jobLink } from './queue.js';

const STATES = { admitted: 'own', reserved: 'own', waiting: 'wait', 'not queued': 'stopped', evicted: 'stopped' };
const named = (each) => h('a', { href: jobLink(each) }, `${each.namespace}/${each.job || each.name}`);
const AGAIN = 5000;

function lacking(standing) {
  if (!standing.flavors?.length) return null;
  return h('div', { class: 'scrolls', tabindex: '0', role: 'region', 'aria-label': 'What it asks for and what is free' }, h('table', null,
    h('thead', null, h('tr', null, ['Flavor', 'Resource', 'Asked', 'Free now', 'In use', 'Own quota', 'Maximum'].map((each) => h('th', { scope: 'col' }, each)))),
    h('tbody', null, standing.flavors.map((each) => h('tr', null, h('td', null, each.flavor), h('td', { title: each.name }, short(each.name)), ['requested', 'available', 'reserved', 'nominal', 'maximum'].map((field) => h('td', { class: `number${field === 'available' && each.missing && each.missing !== '0' ? ' lacks' : ''}` }, each[field] ?? '')))))));
}

function nowPanel(about) {
  const { standing } = about;
  const ahead = standing.ahead ?? [], more = standing.aheadNotNamed ?? 0;
  const start = standing.forecast;
  return h('section', { class: 'panel', 'aria-labelledby': 'now' },
    h('div', { class: 'bar' }, h('h2', { id: 'now' }, 'Now'), h('span', { class: `chip ${STATES[standing.state] ?? ''}` }, standing.state), standing.positionInClusterQueue !== undefined && h('span', { class: 'dim' }, `queue position ${standing.positionInClusterQueue + 1} of ${standing.pendingInClusterQueue}`)),
    h('div', { class: 'pad' },
      standing.message && h('p', null, standing.message),
      standing.evictedBefore && h('p', { class: 'dim' }, `It was evicted before: ${standing.evictedBefore}`),
      start && h('p', null, start.message ? [start.message, h('span', { class: 'dim' }, ` by ${start.restsOn}, as of ${span(start.ageSeconds)} ago`)] : h('span', { class: 'dim' }, `When it starts is not known: ${start.unknown}`)),
      ahead.length + more > 0 && h('p', null, 'Behind ', ahead.slice(0, 5).map((each, number) => [number > 0 && ', ', named(each)]), ahead.length + more > 5 && ` and ${ahead.length + more - 5} more`)),
    lacking(standing),
    standing.wouldHelp?.length > 0 && h('div', { class: 'pad' }, h('h3', null, 'What would let it start'), h('ul', null, standing.wouldHelp.map((each) => h('li', null, each)))),
    standing.heldBy?.length > 0 && h('div', { class: 'pad' }, h('h3', null, 'Who holds the quota'), h('ul', { class: 'plain' }, standing.heldBy.slice(0, 8).map((each) => h('li', null, named(each), h('span', { class: 'dim' }, ` in ${each.clusterQueue}, priority ${each.priority}`))))),
    standing.topology?.map(room));
}

function room(rooms) {
  return h('div', { class: 'pad' }, h('h3', null, `Room by ${rooms.level.slice(rooms.level.lastIndexOf('/') + 1)} of flavor ${rooms.flavor} for ${count(rooms.wanted, rooms.unit)}`),
    h('ul', { class: 'rooms' }, rooms.domains.map((each) => h('li', { class: each.room >= rooms.wanted ? 'fits' : '' }, h('b', null, each.name || 'a domain'), ` ${each.room} now, ${each.roomIfEmpty} if empty`))));
}

function story(about) {
  return h('section', { class: 'panel', 'aria-labelledby': 'story' }, h('div', { class: 'bar' }, h('h2', { id: 'story' }, 'Story')),
    h('ol', { class: 'timeline' }, about.timeline.map((each) => h('li', null,
      h('i', { class: `dot ${{ waits: 'wait', reserved: 'reserved', admitted: 'own', runs: 'own', stopped: 'stopped', ended: 'ended' }[each.kind]}`, 'aria-hidden': 'true' }),
      h('div', null, h('b', null, each.title), ' ', h('time', { class: 'dim', datetime: new Date(each.at * 1000).toISOString(), title: `${since(each.at)} ago` }, clock(each.at)), each.text && h('p', null, each.text))))));
}

function events(about) {
  if (about.events === undefined) return null;
  return h('section', { class: 'panel', 'aria-labelledby': 'events' }, h('div', { class: 'bar' }, h('h2', { id: 'events' }, 'Events')),
    about.events === null ? h('p', { class: 'pad dim' }, 'Your rights do not show events of this namespace, or the API server did not list them in time.')
      : about.events.length ? h('ul', { class: 'events' }, about.events.map((each) => h('li', null, h('span', { class: each.type === 'Warning' ? 'warning' : 'dim' }, each.reason), h('span', null, each.message), h('span', { class: 'dim' }, `${each.on}, ${each.at ? `${since(each.at)} ago` : ''}${each.count > 1 ? `, ${each.count} times` : ''}`))))
        : h('p', { class: 'pad dim' }, 'There are none: the API server keeps events for an hour.'));
}

export function copyButton(text, what) {
  return h('button', { onclick: async (event) => {
    const button = event.currentTarget;
    try {
      await navigator.clipboard.writeText(text());
      say(`${what} is copied`);
      button.textContent = 'Copied';
    } catch {
      say('The browser does not allow to copy');
      button.textContent = 'Not allowed here';
    }
    setTimeout(() => { button.textContent = `Copy ${what.toLowerCase()}`; }, 1500);
  } }, `Copy ${what.toLowerCase()}`);
}

export function job({ parts }) {
  const [namespace, name] = parts;
  const body = h('div', null, h('p', { class: 'loading' }, 'Loading'));
  let version, timer, reading = false, left = false;

  async function read() {
    if (reading || left) return;
    reading = true;
    try {
      const about = await get(['namespaces', namespace, 'workloads', name]);
      if (!left) draw(about);
    } catch (error) {
      if (!left) show(body, h('p', { class: 'problem', role: 'alert' }, error.message));
    }
    reading = false;
    clearTimeout(timer);
    if (!left) timer = setTimeout(read, AGAIN);
  }

  let drawn = '';
  function draw(about) {
    const text = JSON.stringify({ ...about, now: 0 });
    if (text === drawn) return;
    drawn = text;
    const open = body.querySelector('details')?.open;
    const yaml = h('details', { open }, h('summary', null, 'YAML of the Workload'), h('div', { class: 'pad' }, copyButton(() => about.yaml, 'YAML'), h('pre', { tabindex: '0' }, about.yaml)));
    show(body,
      h('nav', { class: 'crumbs', 'aria-label': 'Where this is' }, h('a', { href: '#/' }, 'Overview'), ' / ', about.standing.clusterQueue && [h('a', { href: `#/queues/${encodeURIComponent(about.standing.clusterQueue)}` }, about.standing.clusterQueue), ' / '], h('a', { href: `#/queues/${encodeURIComponent(namespace)}/${encodeURIComponent(about.queue)}` }, `${namespace}/${about.queue}`)),
      h('div', { class: 'titled' }, h('h1', null, h('span', { class: 'dim' }, `${about.kind || 'Workload'} `), about.job || name), copyButton(() => location.href, 'Link')),
      h('div', { class: 'counts' }, about.asks && h('span', null, about.asks.map((each) => `${each.text} ${short(each.resource)}`).join(', '), about.pods > 1 ? ` in ${about.pods} pods` : ''), about.standing.priority !== undefined && h('span', { class: 'dim' }, `priority ${about.standing.priority}`), about.cluster && h('span', { class: 'chip' }, `in cluster ${about.cluster}`), h('span', { class: 'dim', title: clock(about.created) }, `created ${since(about.created)} ago`), about.placed?.map((each) => h('a', { href: '#/topology' }, `placed in ${count(each.domains.length, each.level)}`))),
      about.gone && h('p', { class: 'note' }, 'The object is deleted: this is what the history has kept.'),
      h('div', { class: 'columns' }, h('div', null, nowPanel(about), about.yaml && h('section', { class: 'panel' }, yaml)), h('div', null, story(about), events(about))));
  }
  read();
  return {
    title: name,
    element: body,
    update() {
      const row = store.workloads.get(`${namespace}/${name}`);
      if (version !== undefined && row?.v !== version) read();
      version = row?.v;
    },
    leave() {
      left = true;
      clearTimeout(timer);
    },
  };
}
