// The worker clusters of MultiKueue: whether they are connected, and how many jobs went to each.

import { get } from '../api.js';
import { h, show } from '../dom.js';
import { count } from '../format.js';

export function clusters() {
  const body = h('div', null, h('p', { class: 'loading' }, 'Loading'));
  let timer;
  async function read() {
    try {
      const { rows } = await get(['clusters']);
      show(body, rows.length ? h('ul', { class: 'cards plain' }, rows.map((row) => h('li', { class: 'panel pad' }, h('h2', null, row.name, ' ', h('span', { class: `chip ${row.active ? 'own' : 'stopped'}` }, row.active ? 'connected' : 'not connected')), row.running !== undefined && h('p', null, `${count(row.running, 'job')} went there, ${count(row.offered, 'job')} offered`), h('p', { class: 'dim' }, row.message)))) : h('p', { class: 'note' }, 'There are no MultiKueueClusters.'));
    } catch (error) {
      show(body, h('p', { class: 'problem', role: 'alert' }, error.message));
    }
    timer = setTimeout(read, 5000);
  }
  read();
  return { title: 'Clusters', element: [h('h1', null, 'Worker clusters'), body], leave: () => clearTimeout(timer) };
}
