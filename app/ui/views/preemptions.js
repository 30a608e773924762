// Who preempted whom, by which rule, and what avoids it.

import { get } from '../api.js';
import { h, show } from '../dom.js';
import { clock, since } from '../format.js';
import { jobLink } from './queue.js';

const who = (each) => (each.gone ? h('span', { class: 'dim' }, 'a workload that does not exist any more') : each.hidden ? h('span', { class: 'dim' }, 'a workload of another namespace') : h('a', { href: jobLink(each) }, `${each.namespace}/${each.job || each.name}`));

export function preemptions({ me }) {
  const list = h('div', null, h('p', { class: 'loading' }, 'Loading'));
  const chosen = { days: '7', namespace: me.may.workloads ? '' : me.namespaces[0] ?? '' };

  async function read() {
    try {
      const found = await get(['preemptions'], chosen);
      show(list, found.since === null && h('p', { class: 'note' }, 'Without a history (history.enabled) only the last preemption of each workload that still exists is known.'),
        found.rows.length ? h('section', { class: 'panel' }, h('ul', { class: 'plain' }, found.rows.map((row) => h('li', { class: 'preemption' },
          h('div', null, h('div', { class: 'name' }, who(row.by), row.byQueue && h('span', { class: 'dim' }, ` in ${row.byQueue}`)), h('div', { class: 'arrow dim' }, 'preempted'), h('div', { class: 'name' }, who(row), h('span', { class: 'dim' }, ` in ${row.queue}`))),
          h('div', null, h('p', null, row.rule || row.cause), row.wouldHelp && h('p', { class: 'dim' }, `What avoids it: ${row.wouldHelp}`)),
          h('time', { class: 'dim', title: row.at ? clock(row.at) : '' }, row.at ? `${since(row.at)} ago` : 'earlier'))))) : h('p', { class: 'note' }, 'No preemption is known.'));
    } catch (error) {
      show(list, h('p', { class: 'problem', role: 'alert' }, error.message));
    }
  }
  const days = h('select', { id: 'days', onchange: () => { chosen.days = days.value; read(); } }, [['1', 'last day'], ['7', 'last 7 days'], ['30', 'last 30 days']].map(([value, text]) => h('option', { value, selected: value === chosen.days }, text)));
  const namespace = h('select', { id: 'in', 'aria-label': 'Namespace', onchange: () => { chosen.namespace = namespace.value; read(); } }, me.namespaces.map((each) => h('option', { value: each, selected: each === chosen.namespace }, each)));
  read();
  return { title: 'Preemptions', element: [h('div', { class: 'titled' }, h('h1', null, 'Who preempted whom'), !me.may.workloads && me.namespaces.length > 0 && namespace, me.history && h('label', { class: 'unseen', for: 'days' }, 'Time'), me.history && days), list] };
}
