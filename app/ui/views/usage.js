// Use over time: from the history, or without one since this page was opened.

import { get } from '../api.js';
import { h, show } from '../dom.js';
import { amount, short } from '../format.js';
import { store } from '../store.js';

const GROUPS = [['queue', 'ClusterQueue'], ['cohort', 'cohort'], ['namespace', 'namespace'], ['user', 'user'], ['localqueue', 'LocalQueue']];
const DAYS = [['0.25', '6 hours'], ['1', '1 day'], ['7', '7 days'], ['30', '30 days']];
const MOST = 8;

// Series of one resource: sums over flavors, the largest groups by themselves, the others together.
function groups(found, resource) {
  const sums = new Map();
  for (const each of found.used) {
    if (each.resource !== resource) continue;
    const known = sums.get(each.group);
    sums.set(each.group, known ? known.map((value, number) => value + each.values[number]) : each.values);
  }
  const ordered = [...sums].sort((a, b) => b[1].reduce((x, y) => x + y, 0) - a[1].reduce((x, y) => x + y, 0));
  const shown = ordered.slice(0, MOST).map(([name, values]) => ({ name: name || 'none', values }));
  if (ordered.length > MOST) shown.push({ name: `${ordered.length - MOST} others`, values: ordered.slice(MOST).map(([, values]) => values).reduce((a, b) => a.map((value, number) => value + b[number])) });
  const quota = found.nominal.filter((each) => each.resource === resource).map((each) => each.values);
  return { series: shown, quota: quota.length ? quota.reduce((a, b) => a.map((value, number) => value + b[number])) : null };
}

export function usage({ me }) {
  const body = h('div', null, h('p', { class: 'loading' }, 'Loading'));
  const chosen = { by: 'queue', days: '1' };
  let charts = [];

  async function draw(found) {
    const { chart } = await import('../parts/chart.js');
    charts.forEach((each) => each.destroy());
    charts = [];
    const resources = [...new Set(found.used.map((each) => each.resource))].sort();
    show(body, resources.length ? resources.map((resource) => {
      const { series, quota } = groups(found, resource);
      const place = h('div', { class: 'chart' });
      charts.push(chart(place, { times: found.times, series, quota, label: `${short(resource)} in use`, say: (value) => amount(resource, value) }));
      return h('section', { class: 'panel', 'aria-label': `${resource} over time` }, h('div', { class: 'bar' }, h('h2', null, short(resource)), quota && h('span', { class: 'dim' }, 'dashed line: quota')), place);
    }) : h('p', { class: 'note' }, 'Nothing was in use in this time.'));
    charts.forEach((each) => each.begin());
  }

  async function read() {
    if (!me.history) return live();
    try {
      await draw(await get(['usage'], { ...chosen, namespace: me.may.workloads ? '' : me.namespaces[0] ?? '' }));
    } catch (error) {
      show(body, h('p', { class: 'problem', role: 'alert' }, error.message));
    }
    return undefined;
  }

  // Without a history: what this page has seen in its stream.
  async function live() {
    const { seen } = store;
    if (seen.length < 2) {
      show(body, h('p', { class: 'note' }, 'Without a history (history.enabled) use is drawn from the moment at which this page was opened: nothing has changed yet.'));
      return;
    }
    const names = new Map();
    for (const [, cells] of seen) for (const [key] of cells) names.set(key, null);
    await draw({ times: seen.map(([at]) => at), nominal: [], used: [...names.keys()].map((key) => {
      const [group, resource] = key.split(' ');
      return { group, resource, values: seen.map(([, cells]) => cells.get(key) ?? 0) };
    }) });
    body.prepend(h('p', { class: 'note' }, 'Without a history (history.enabled) this is what has happened since this page was opened.'));
  }

  const pick = (id, label, options) => {
    const field = h('select', { id, onchange: () => { chosen[id] = field.value; read(); } }, options.map(([value, text]) => h('option', { value, selected: chosen[id] === value }, text)));
    return [h('label', { class: 'dim', for: id }, label), field];
  };
  const again = () => read();
  addEventListener('theme', again);
  addEventListener('resize', again);
  read();
  let timer;
  return {
    title: 'Usage',
    element: [h('div', { class: 'titled' }, h('h1', null, 'Use over time'), me.history && pick('by', 'By', GROUPS), me.history && pick('days', 'of the last', DAYS)), body],
    update() {
      if (!me.history) {
        clearTimeout(timer);
        timer = setTimeout(live, 1000);
      }
    },
    leave() {
      clearTimeout(timer);
      removeEventListener('theme', again);
      removeEventListener('resize', again);
      charts.forEach((each) => each.destroy());
    },
  };
}
