// All queues: what is wrong first, then the cohorts as a tree, each ClusterQueue with bars of what it may use and uses.

import { bar, legend, sentence } from '../parts/bar.js';
import { h, show } from '../dom.js';
import { amount, count, short } from '../format.js';
import { virtualList } from '../parts/list.js';
import { changed, store } from '../store.js';

const rem = () => parseFloat(getComputedStyle(document.documentElement).fontSize);
const closed = new Set();
const SHOWN_WRONG = 6;

export const queueLink = (row) => (row.namespace ? `#/queues/${encodeURIComponent(row.namespace)}/${encodeURIComponent(row.name)}` : `#/queues/${encodeURIComponent(row.name)}`);

// Adds up cells by flavor and resource.
export function totals(rows) {
  const sums = new Map();
  for (const row of rows) {
    for (const cell of row.cells) {
      const name = `${cell.flavor} ${cell.resource}`;
      const sum = sums.get(name) ?? { flavor: cell.flavor, resource: cell.resource, nominal: 0, used: 0, notReady: 0, borrowed: 0, lent: 0 };
      for (const each of ['nominal', 'used', 'notReady', 'borrowed']) sum[each] += cell[each] ?? 0;
      sums.set(name, sum);
    }
  }
  return [...sums.values()];
}

// The tree of cohorts with their queues: cohorts are known from their objects, and from the queues that name them.
export function tree() {
  const cohorts = new Map();
  const cohort = (name) => {
    if (!cohorts.has(name)) cohorts.set(name, { name, parent: store.cohorts.get(name)?.parent ?? '', cohorts: [], queues: [], own: store.cohorts.get(name) });
    return cohorts.get(name);
  };
  for (const name of store.cohorts.keys()) cohort(name);
  const alone = [];
  for (const row of store.queues.values()) (row.cohort ? cohort(row.cohort).queues : alone).push(row);
  for (const each of [...cohorts.values()]) if (each.parent) cohort(each.parent);
  const roots = [];
  for (const each of cohorts.values()) {
    let above = each.parent, steps = 0;
    while (above && above !== each.name && steps < 20) { above = cohorts.get(above)?.parent; steps += 1; }
    // parents that run in a circle have no root: such a cohort stands by itself
    if (each.parent && !above) cohorts.get(each.parent).cohorts.push(each); else roots.push(each);
  }
  return { roots, alone };
}

const below = (node) => [...node.queues, ...node.cohorts.flatMap(below)];
const byName = (a, b) => a.name.localeCompare(b.name);
const ORDERS = {
  name: byName,
  waiting: (a, b) => b.pending - a.pending || byName(a, b),
  wrong: (a, b) => b.wrong.length - a.wrong.length || byName(a, b),
};

// The lines of the tree from top to bottom, without what is closed or filtered out.
function lines({ order, filter }) {
  const found = [];
  const fits = (row) => !filter || row.name.includes(filter) || (row.cohort ?? '').includes(filter);
  const queues = (rows, depth) => rows.filter(fits).sort(ORDERS[order]).forEach((row) => found.push({ row, depth }));
  const walk = (node, depth) => {
    const rows = below(node).filter(fits);
    if (!rows.length && filter) return;
    found.push({ node, rows, depth });
    if (closed.has(node.name) && !filter) return;
    node.cohorts.sort(byName).forEach((each) => walk(each, depth + 1));
    queues(node.queues, depth + 1);
  };
  if (store.queues.size) {
    const { roots, alone } = tree();
    roots.sort(byName).forEach((each) => walk(each, 0));
    if (alone.some(fits)) {
      if (roots.length) found.push({ title: 'Without a cohort', depth: 0 });
      queues(alone, roots.length ? 1 : 0);
    }
  } else queues([...store.namespaces.values()], 0);
  return found;
}

const height = (line) => {
  if (line.title) return 2.75 * rem();
  const cells = line.node ? 0 : line.row.cells.length;
  const narrow = innerWidth < 46 * rem();
  const text = line.node ? 3.25 : narrow ? 5.25 + (line.row.wrong.length ? 3 : 0) : 3.25;
  return (line.node ? text : narrow ? text + Math.max(1, cells) * 2.75 : Math.max(text + (line.row.wrong.length ? 2 : 0), 1.25 + cells * 1.5)) * rem();
};

function cohortLine({ node, rows, depth }) {
  const open = !closed.has(node.name);
  const told = totals(rows).filter((each) => each.borrowed).map((each) => `${amount(each.resource, each.borrowed)} ${short(each.resource)} in ${each.flavor}`);
  return h('div', { class: 'line cohort', style: { '--depth': depth } },
    h('button', { class: 'quiet', 'aria-expanded': String(open), 'data-focus': `cohort-${node.name}`, onclick: () => {
      if (open) closed.add(node.name); else closed.delete(node.name);
      changed();
    } }, h('span', { class: 'twist', 'aria-hidden': 'true' }), h('span', { class: 'dim' }, 'Cohort '), node.name),
    h('span', { class: 'dim' }, count(rows.length, 'queue')),
    h('span', { class: 'dim grow' }, told.length ? `borrowed: ${told.slice(0, 3).join(', ')}${told.length > 3 ? ` and ${told.length - 3} more` : ''}` : ''),
    h('span', { class: 'tail' }, waits(rows.reduce((sum, row) => sum + row.pending, 0))));
}

export const waits = (number) => (number ? h('span', { class: 'chip wait' }, `${number.toLocaleString('en')} waiting`) : h('span', { class: 'chip none' }, 'none waiting'));

export function state(row) {
  if (row.stopped) return h('span', { class: 'chip stopped' }, row.stopped === 'Hold' ? 'on hold' : 'draining');
  return row.active ? null : h('span', { class: 'chip stopped' }, 'inactive');
}

function queueLine({ row, depth }) {
  return h('div', { class: `line queue${row.active ? '' : ' inactive'}`, style: { '--depth': depth } },
    h('div', { class: 'who' },
      h('div', { class: 'name' }, h('a', { href: queueLink(row) }, row.name), row.namespace && h('span', { class: 'dim' }, ` in ${row.namespace}`), ' ', state(row)),
      h('div', { class: 'counts' }, waits(row.pending), h('span', { class: 'dim' }, `${row.running.toLocaleString('en')} running`), row.notReady > 0 && h('span', { class: 'dim' }, `${row.notReady.toLocaleString('en')} not ready`), row.share !== undefined && h('span', { class: 'dim', title: 'Fair sharing: quota borrowed, in thousandths of what the cohort lends, divided by the weight' }, `share ${row.share > 1e15 ? '∞' : row.share}`)),
      row.wrong.length > 0 && h('p', { class: 'wrong', title: row.wrong.join('\n') }, row.wrong[0])),
    h('div', { class: 'cells' }, row.cells.length ? row.cells.map((cell) => h('div', { class: 'cell' },
      h('span', { class: 'what', title: `${cell.resource} in ${cell.flavor}` }, `${short(cell.resource)} `, h('span', { class: 'dim' }, cell.flavor)),
      bar(cell),
      h('span', { class: 'numbers', title: sentence(cell) }, amount(cell.resource, cell.used + cell.notReady), cell.nominal !== undefined && h('span', { class: 'dim' }, ` / ${amount(cell.resource, cell.nominal)}`)))) : h('span', { class: 'dim' }, row.namespace ? 'nothing in use' : 'no quota')));
}

function summary() {
  const rows = store.queues.size ? [...store.queues.values()] : [...store.namespaces.values()];
  const sum = (name) => rows.reduce((total, row) => total + row[name], 0);
  const figure = (value, text, kind = '') => h('div', { class: `figure ${kind}` }, h('b', null, value.toLocaleString('en')), h('span', null, text));
  const bad = rows.filter((row) => row.wrong.length).length;
  return [
    figure(rows.length, store.queues.size ? 'ClusterQueues' : 'LocalQueues'),
    figure(sum('running'), 'running', 'own'),
    figure(sum('notReady'), 'reserved, not ready'),
    figure(sum('pending'), 'waiting', 'wait'),
    figure(bad, bad === 1 ? 'queue needs a look' : 'queues need a look', bad ? 'stopped' : ''),
  ];
}

function wrong() {
  const rows = [...store.queues.values(), ...store.namespaces.values()].filter((row) => row.wrong.length).sort(byName);
  if (!rows.length) return null;
  const shown = rows.slice(0, SHOWN_WRONG).map((row) => h('li', null, h('a', { href: queueLink(row), 'data-focus': `wrong-${row.name}` }, row.name), h('div', null, row.wrong.map((each) => h('span', null, each)))));
  return h('section', { class: 'panel attention', 'aria-labelledby': 'wrong' }, h('h2', { id: 'wrong' }, 'Needs a look'), h('ul', null, shown), rows.length > SHOWN_WRONG && h('p', { class: 'dim' }, `and ${count(rows.length - SHOWN_WRONG, 'more queue')}: sort the list by what is wrong`));
}

const chosen = { order: 'name', filter: '' };

export function overview({ me }) {
  const figures = h('div', { class: 'figures' }), trouble = h('div'), list = virtualList('Queues');
  const order = h('select', { id: 'order', 'data-focus': 'order', onchange: () => { chosen.order = order.value; redraw(); } }, [['name', 'by name'], ['waiting', 'most waiting first'], ['wrong', 'what is wrong first']].map(([value, text]) => h('option', { value, selected: chosen.order === value }, text)));
  const filter = h('input', { id: 'filter', type: 'search', placeholder: 'Filter', 'aria-label': 'Filter queues by name', value: chosen.filter, oninput: () => { chosen.filter = filter.value.trim(); redraw(); } });
  const nothing = h('div');
  let shown = [];
  const redraw = () => {
    shown = lines(chosen);
    list.update();
    const loaded = store.loaded.size > 0 || (!me.may.clusterQueues && !me.namespaces.length);
    show(nothing, loaded && !shown.length && empty(me, chosen.filter));
    nothing.hidden = Boolean(shown.length);
  };
  list.source = {
    count: () => shown.length,
    height: (number) => height(shown[number]),
    item: (number) => {
      const line = shown[number];
      // a cohort shows sums: it is drawn again when one of them is another one
      if (line.node) return { key: `cohort ${line.node.name}`, data: memo(`${line.node.name} ${closed.has(line.node.name)} ${line.depth} ${JSON.stringify(totals(line.rows))} ${line.rows.reduce((sum, row) => sum + row.pending, 0)}`, line) };
      return line.title ? { key: 'title', data: memo(line.title, line) } : { key: `queue ${line.row.namespace ?? ''} ${line.row.name}`, data: memo(line.row, line, line.depth) };
    },
    render: (line) => (line.title ? h('div', { class: 'line title' }, h('h3', null, line.title)) : line.node ? cohortLine(line) : queueLine(line)),
  };
  return {
    title: 'Overview',
    element: [
      h('h1', { class: 'unseen' }, 'Overview'), figures, trouble,
      h('section', { class: 'panel', 'aria-labelledby': 'queues' },
        h('div', { class: 'bar' }, h('h2', { id: 'queues' }, 'Queues'), legend(), h('span', { class: 'grow' }), h('label', { class: 'dim', for: 'order' }, 'Sort'), order, filter),
        list, nothing),
    ],
    update() {
      show(figures, summary());
      show(trouble, wrong());
      redraw();
    },
  };
}

// Returns the same line for the same content, so that a list sees what has changed.
const memory = new Map();
const kept = new WeakMap();
function memo(content, line, depth = 0) {
  if (typeof content === 'object') {
    const known = kept.get(content);
    if (known && known.depth === depth) return known;
    kept.set(content, line);
    return line;
  }
  if (memory.size > 5000) memory.clear();
  if (!memory.has(content)) memory.set(content, line);
  return memory.get(content);
}

function empty(me, filter) {
  if (filter) return h('p', { class: 'dim pad' }, `No queue has "${filter}" in its name.`);
  if (me.may.clusterQueues) return h('div', { class: 'pad' }, h('p', null, 'There are no ClusterQueues yet.'), h('pre', null, 'seiretsu migrate --help\nkubectl apply -f examples/queues.yaml'));
  const field = h('input', { id: 'namespace', required: true, value: localStorage.getItem('seiretsu-namespace') ?? '' });
  return h('form', { class: 'pad', onsubmit: (event) => {
    event.preventDefault();
    localStorage.setItem('seiretsu-namespace', field.value.trim());
    location.reload();
  } }, h('p', null, me.namespaces.length ? 'There are no LocalQueues in your namespaces.' : `${me.user} may list no ClusterQueues, and no LocalQueues in any namespace that was asked for.`),
  h('label', { for: 'namespace' }, 'Namespace'), field, h('button', { class: 'main' }, 'Show'));
}
