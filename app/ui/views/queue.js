// One queue: its line in order, each workload with why it waits and when it is expected to start; and those that run.

import { get } from '../api.js';
import { bar, legend, sentence } from '../parts/bar.js';
import { h, show } from '../dom.js';
import { amount, clock, count, short, since, span } from '../format.js';
import { Pages, virtualList } from '../parts/list.js';
import { store } from '../store.js';
import { queueLink, state, waits } from './overview.js';

const rem = () => parseFloat(getComputedStyle(document.documentElement).fontSize);
const TABS = [['line', 'Waiting'], ['running', 'Running'], ['queues', 'LocalQueues'], ['history', 'History'], ['settings', 'Settings']];
const HISTORY_DAYS = 7;

export const jobLink = (row) => `#/jobs/${encodeURIComponent(row.namespace)}/${encodeURIComponent(row.name)}`;
const jobName = (row) => (row.hidden ? h('span', { class: 'dim' }, 'a workload of another namespace') : [h('a', { href: jobLink(row) }, row.job || row.name), h('span', { class: 'dim' }, ` ${row.namespace}/${row.queue}`)]);
const priority = (row) => (row.priority ? h('span', { class: 'chip' }, `priority ${row.priority}`) : null);
const asks = (row) => [row.asks.map((each) => `${each.text} ${short(each.resource)}`).join(', '), row.pods > 1 && ` in ${row.pods} pods`];

export function startText(start) {
  if (!start) return h('span', { class: 'dim' }, 'no forecast yet');
  if (start.unknown !== undefined) return h('span', { class: 'dim', title: start.unknown }, 'start not known');
  return h('span', { title: `Half of such workloads start within ${span(start.p50)}, nine of ten within ${span(start.p90)}` }, 'starts in ', h('b', null, start.text));
}

function waitingRow(row, number) {
  if (!row) return h('div', { class: 'line job', 'aria-busy': 'true' }, h('span', { class: 'place' }, number + 1), h('span', { class: 'dim' }, '…'));
  if (row.hidden) return h('div', { class: 'line job' }, h('span', { class: 'place' }, row.position + 1), h('div', { class: 'who' }, h('div', { class: 'name' }, jobName(row), ' ', priority(row))));
  return h('div', { class: 'line job' },
    h('span', { class: 'place', title: `Queue position ${row.position + 1}` }, row.position + 1),
    h('div', { class: 'who' },
      h('div', { class: 'name' }, jobName(row), ' ', priority(row)),
      h('p', { class: 'why', title: row.message }, row.message || 'it has not been decided yet')),
    h('div', { class: 'asks dim' }, asks(row)),
    h('div', { class: 'start' }, startText(row.start), h('div', { class: 'dim', title: clock(row.created) }, `waits for ${since(row.created)}`)));
}

function runningRow(row, number) {
  if (!row) return h('div', { class: 'line job', 'aria-busy': 'true' }, h('span', { class: 'dim' }, `${number + 1} …`));
  if (row.hidden) return h('div', { class: 'line job' }, h('div', { class: 'who' }, h('div', { class: 'name' }, jobName(row), ' ', priority(row))));
  return h('div', { class: 'line job' },
    h('span', { class: `dot ${row.evicted ? 'stopped' : row.ready ? 'own' : 'wait'}`, 'aria-hidden': 'true' }),
    h('div', { class: 'who' },
      h('div', { class: 'name' }, jobName(row), ' ', priority(row)),
      h('p', { class: 'why' }, row.evicted ? 'evicted: its pods are being stopped' : row.ready ? 'runs' : 'quota reserved, not all pods are ready', row.cluster && `, in cluster ${row.cluster}`)),
    h('div', { class: 'asks dim' }, row.uses.map((each) => `${amount(each.resource, each.amount)} ${short(each.resource)}`).join(', '), h('div', null, [...new Set(row.uses.map((each) => each.flavor))].join(', '))),
    h('div', { class: 'start' }, row.ends ? h('span', { title: `By ${row.ends.restsOn}: one of ten ends within ${span(row.ends.p10)}, nine of ten within ${span(row.ends.p90)}` }, 'ends in about ', h('b', null, span(row.ends.p50))) : h('span', { class: 'dim' }, 'end not known'), h('div', { class: 'dim', title: clock(row.since) }, `since ${since(row.since)}`)));
}

function pages(path, kind, render, list, trouble) {
  const found = new Pages((offset, limit) => get([...path, kind], { offset, limit }), (error) => {
    show(trouble, error && h('p', { class: 'problem', role: 'alert' }, error.message));
    list.update();
  });
  list.source = {
    count: () => found.total,
    fixed: () => (innerWidth < 46 * rem() ? 7.5 : 4) * rem(),
    item: (number) => {
      const row = found.item(number);
      return row && { key: row.hidden ? `#${number}` : `${row.namespace}/${row.name}`, data: row };
    },
    wanted: (first, last) => found.want(first, last),
    render,
  };
  found.want(0, 1);
  return found;
}

function settings(spec) {
  const entry = (name, value) => value !== undefined && [h('dt', null, name), h('dd', null, value)];
  const preemption = spec.preemption ?? {};
  return h('dl', { class: 'facts' },
    entry('Queueing strategy', spec.queueingStrategy ?? 'BestEffortFIFO'),
    entry('Preemption in the queue', preemption.withinClusterQueue ?? 'Never'),
    entry('Reclaim in the cohort', preemption.reclaimWithinCohort ?? 'Never'),
    entry('Preemption while borrowing', preemption.borrowWithinCohort?.policy ?? 'Never'),
    entry('Flavors', (spec.resourceGroups ?? []).map((group) => (group.flavors ?? []).map((each) => each.name).join(', then ')).join('; ')),
    entry('AdmissionChecks', (spec.admissionChecks ?? []).concat((spec.admissionChecksStrategy?.admissionChecks ?? []).map((each) => each.name)).join(', ') || 'none'),
    entry('Weight', spec.fairSharing?.weight ?? '1'));
}

export function queue({ me, parts, query }) {
  const local = parts.length === 2;
  const path = local ? ['namespaces', parts[0], 'queues', parts[1]] : ['queues', parts[0]];
  const name = parts.join('/');
  const head = h('div', { class: 'head' }), cells = h('div', { class: 'cells wide' }), tabs = h('div', { class: 'tabs', role: 'tablist', 'aria-label': 'Parts of the queue' });
  const panel = h('div', { role: 'tabpanel', id: 'part', tabindex: '0', 'aria-labelledby': 'tab-line' }), trouble = h('div');
  let charts = [], about = null, chosen = query.get('part') ?? 'line', version = null, found = null, shown = '';

  const row = () => (local ? store.namespaces.get(name) : store.queues.get(name)) ?? about?.row;

  function choose(part) {
    chosen = part;
    const list = virtualList(part === 'line' ? 'Workloads that wait, in order' : 'Workloads that hold quota');
    panel.setAttribute('aria-labelledby', `tab-${part}`);
    found = null;
    if (part === 'line' || part === 'running') {
      show(panel, trouble, list);
      found = pages(path, part, part === 'line' ? waitingRow : runningRow, list, trouble);
    } else if (part === 'history') history();
    else if (part === 'queues') show(panel, h('ul', { class: 'plain' }, (about?.localQueues ?? []).map((each) => h('li', { class: 'pad' }, h('a', { href: queueLink(each) }, `${each.namespace}/${each.name}`), ' ', waits(each.pending), h('span', { class: 'dim' }, ` ${each.running} running`)))));
    else show(panel, about?.spec ? settings(about.spec) : null);
    tab();
  }

  function tab() {
    const row_ = row(), counts = { line: row_?.pending, running: row_ && row_.running + row_.notReady, queues: about?.localQueues?.length };
    const offered = TABS.filter(([part]) => (part === 'history' ? me.history : !local || part === 'line' || part === 'running'));
    const text = JSON.stringify([counts, chosen]);
    if (text === shown) return;
    shown = text;
    show(tabs, offered.map(([part, title], number) => h('button', { role: 'tab', id: `tab-${part}`, 'data-focus': part, 'aria-selected': String(part === chosen), 'aria-controls': 'part', tabindex: part === chosen ? '0' : '-1', onclick: () => choose(part), onkeydown: (event) => {
      const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
      if (!step) return;
      const next = offered[(number + step + offered.length) % offered.length][0];
      choose(next);
      document.getElementById(`tab-${next}`).focus();
    } }, title, counts[part] !== undefined && h('span', { class: 'dim' }, ` ${counts[part].toLocaleString('en')}`))));
  }

  // Use, quota and how many waited, of the last days.
  async function history() {
    show(panel, h('p', { class: 'loading' }, 'Loading'));
    charts.forEach((each) => each.destroy());
    charts = [];
    try {
      const { chart } = await import('../parts/chart.js');
      const asked = { by: local ? 'localqueue' : 'queue', group: name, days: HISTORY_DAYS, namespace: local ? parts[0] : me.may.workloads ? '' : me.namespaces[0] ?? '' };
      const told = await get(['usage'], asked);
      if (chosen !== 'history') return;
      show(panel);
      for (const resource of [...new Set(told.used.map((each) => each.resource))].sort()) {
        const place = h('div', { class: 'chart' }), quotas = told.nominal.filter((each) => each.resource === resource);
        panel.append(h('h3', { class: 'pad' }, `${short(resource)} in use, the last ${HISTORY_DAYS} days`), place);
        charts.push(chart(place, { times: told.times, label: `${short(resource)} in use`, say: (value) => amount(resource, value), series: told.used.filter((each) => each.resource === resource).map((each) => ({ name: each.flavor, values: each.values })), quota: quotas.length ? quotas.map((each) => each.values).reduce((a, b) => a.map((value, number) => value + b[number])) : null }));
      }
      if (told.waiting.length) {
        const place = h('div', { class: 'chart' });
        panel.append(h('h3', { class: 'pad' }, 'Workloads that waited'), place);
        charts.push(chart(place, { times: told.times, label: 'Workloads that waited', say: (value) => value.toFixed(value < 10 ? 1 : 0), series: told.waiting.map((each) => ({ name: 'waiting', values: each.values })), quota: null }));
      }
      if (!charts.length) show(panel, h('p', { class: 'pad dim' }, 'Nothing was in use, and nothing waited.'));
      charts.forEach((each) => each.begin());
    } catch (error) {
      show(panel, h('p', { class: 'problem', role: 'alert' }, error.message));
    }
  }

  async function read() {
    try {
      about = await get(path);
      show(trouble);
    } catch (error) {
      show(trouble, h('p', { class: 'problem', role: 'alert' }, error.message));
      show(panel, trouble);
      return;
    }
    update();
    if (chosen === 'queues' || chosen === 'settings') choose(chosen);
  }

  let drawn = '';
  function update() {
    const now = row();
    if (!now) return;
    const text = JSON.stringify(now);
    if (text !== drawn) {
      drawn = text;
      show(head,
        h('nav', { class: 'crumbs', 'aria-label': 'Where this is' }, h('a', { href: '#/' }, 'Overview'), ' / ', now.cohort && [h('span', { class: 'dim' }, `Cohort ${now.cohort}`), ' / '], local && me.may.clusterQueues && [h('a', { href: `#/queues/${encodeURIComponent(now.clusterQueue)}` }, now.clusterQueue), ' / ']),
        h('h1', null, h('span', { class: 'dim' }, local ? 'LocalQueue ' : 'ClusterQueue '), name, ' ', state(now)),
        h('div', { class: 'counts' }, waits(now.pending), now.inadmissible > 0 && h('span', { class: 'dim' }, `${now.inadmissible} of them need a change first`), h('span', { class: 'dim' }, `${now.running} running`), now.notReady > 0 && h('span', { class: 'dim' }, `${now.notReady} not ready`), now.share !== undefined && h('span', { class: 'dim' }, `weighted share ${now.share > 1e15 ? 'infinite' : now.share}, weight ${now.weight}`), !local && me.may.clusterQueues && h('a', { href: `#/what-if?queue=${encodeURIComponent(name)}` }, 'What if its quota were another one?')),
        now.wrong.map((each) => h('p', { class: 'problem' }, each)));
      show(cells, now.cells.map((cell) => h('div', { class: 'cell' }, h('span', { class: 'what' }, `${short(cell.resource)} `, h('span', { class: 'dim' }, cell.flavor)), bar(cell), h('span', { class: 'numbers' }, sentence(cell)))));
    }
    tab();
    if (version !== null && version !== now.v) found?.changed();
    version = now.v ?? null;
  }

  choose(chosen);
  read();
  return { title: name, element: [head, h('section', { class: 'panel' }, h('div', { class: 'bar' }, h('h2', null, 'Quota'), legend()), cells), h('section', { class: 'panel' }, tabs, panel)], update };
}
