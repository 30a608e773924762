// What if quotas of a ClusterQueue were others: whom that hits at once, from a cycle before the edit and one after it, and
// whose start it moves, from two forecasts. Nothing is written; the command that makes the change can be copied.

import { get } from '../api.js';
import { bar } from '../parts/bar.js';
import { h, show } from '../dom.js';
import { amount, count, short } from '../format.js';
import { store } from '../store.js';
import { copyButton } from './job.js';
import { jobLink } from './queue.js';

const SETTLED = 350;
const KINDS = [
  ['stopped', 'stopped', 'stops at once', 'stop at once'],
  ['never', 'stopped', 'could never start again', 'could never start again'],
  ['exposed', 'wait', 'would borrow from now on, so that others may reclaim its quota', 'would borrow from now on, so that others may reclaim their quota'],
  ['later', 'wait', 'starts later', 'start later'],
  ['starting', 'own', 'starts at once', 'start at once'],
  ['possible', 'own', 'could start at last', 'could start at last'],
  ['covered', 'own', 'would be within the quota', 'would be within the quota'],
  ['sooner', 'own', 'starts sooner', 'start sooner'],
];

export function whatIf({ me, query }) {
  const names = () => [...store.queues.keys()].sort();
  const chosen = { queue: query.get('queue') ?? '' };
  const form = h('div', { class: 'quotas' }), result = h('div', { role: 'status', 'aria-live': 'polite' });
  let spec = null, timer, asked = 0, offered = '';
  const field = h('select', { id: 'queue', onchange: () => { chosen.queue = field.value; begin(); } });

  async function begin() {
    if (!chosen.queue) return;
    spec = null;
    show(result);
    try {
      const found = await get(['queues', chosen.queue]);
      spec = found.spec;
      fields(found.row);
    } catch (error) {
      show(form, h('p', { class: 'problem', role: 'alert' }, error.message));
    }
  }

  function fields(row) {
    const cells = new Map(row.cells.map((cell) => [`${cell.flavor}/${cell.resource}`, cell]));
    show(form, spec.resourceGroups?.flatMap((group) => group.flavors.flatMap((flavor) => flavor.resources.map((each) => {
      const id = `edit-${flavor.name}-${each.name}`, cell = cells.get(`${flavor.name}/${each.name}`);
      const input = h('input', { id, value: each.nominalQuota, 'data-edit': `nominal/${flavor.name}/${each.name}`, 'data-was': each.nominalQuota, inputmode: 'decimal', spellcheck: 'false', oninput: later });
      return h('div', { class: 'quota-edit' }, h('label', { for: id }, `${short(each.name)} `, h('span', { class: 'dim' }, flavor.name)), cell && bar(cell), h('span', { class: 'dim' }, `now ${each.nominalQuota}, ${cell ? amount(each.name, cell.used + cell.notReady) : 0} in use`), input);
    }))));
  }

  const edits = () => [...form.querySelectorAll('input')].filter((each) => each.value.trim() !== each.dataset.was).map((each) => `${each.dataset.edit}=${each.value.trim()}`);

  function later() {
    clearTimeout(timer);
    timer = setTimeout(play, SETTLED);
  }

  async function play() {
    const number = (asked += 1), wanted = edits();
    if (!wanted.length) return show(result);
    show(result, h('p', { class: 'loading' }, 'Playing before and after, for some seconds at most'));
    try {
      const found = await get(['queues', chosen.queue, 'what-if'], { edit: wanted });
      if (number === asked) draw(found);
    } catch (error) {
      if (number === asked) show(result, h('p', { class: 'problem', role: 'alert' }, error.message));
    }
    return undefined;
  }

  function draw({ effects, patch, changed, starts }) {
    const hits = KINDS.filter(([kind]) => effects[kind].total > 0);
    show(result,
      !changed ? h('p', { class: 'note' }, 'This changes nothing for workloads.')
        : effects.uncounted ? h('p', { class: 'note' }, `${count(effects.running, 'running workload')} and ${count(effects.waiting, 'waiting workload')} are in these cohorts: too many to be played here. seiretsu plan -f plays any number.`)
          : hits.length ? h('ul', { class: 'hits' }, hits.map(([kind, colour, one, many]) => h('li', { class: `hit ${colour}` }, h('b', null, `${count(effects[kind].total, 'workload')} ${effects[kind].total === 1 ? one : many}`), h('ul', { class: 'plain' }, effects[kind].rows.slice(0, 8).map((each) => h('li', null, h('a', { href: jobLink(each) }, `${each.namespace}/${each.job || each.name}`), each.why && h('span', { class: 'dim' }, ` ${each.why}`)))), effects[kind].total > Math.min(8, effects[kind].rows.length) && h('span', { class: 'dim' }, `and ${effects[kind].total - Math.min(8, effects[kind].rows.length)} more`))))
            : h('p', { class: 'note' }, `No workload ${starts ? 'notices it' : 'is hit at once'}: ${count(effects.running, 'running workload')} and ${count(effects.waiting, 'waiting workload')} were looked at.`),
      changed && !starts && !effects.uncounted && effects.waiting > 0 && h('p', { class: 'note' }, 'Whose start would move is not known: how long these workloads run has not been learned, or playing them takes too long.'),
      h('h2', { class: 'gap' }, 'The change as a command'), h('p', { class: 'dim' }, 'Nothing is written here. A file in your repository is better, if your queues come from one.'), h('pre', { tabindex: '0' }, patch), copyButton(() => patch, 'Command'));
  }

  begin();
  return {
    title: 'What if',
    element: [h('h1', null, 'What if a quota were another one?'), h('section', { class: 'panel' }, h('div', { class: 'bar' }, h('label', { for: 'queue' }, 'ClusterQueue'), field), h('div', { class: 'pad' }, me.may.clusterQueues ? form : h('p', { class: 'problem' }, 'You may not list ClusterQueues.'))), h('section', { 'aria-label': 'Effects' }, result)],
    update() {
      const text = names().join(' ');
      if (text === offered) return;
      offered = text;
      show(field, h('option', { value: '' }, 'choose one'), names().map((each) => h('option', { value: each, selected: each === chosen.queue }, each)));
    },
    leave: () => clearTimeout(timer),
  };
}
