// Finds a queue or a job by its name.

import { get } from '../api.js';
import { h, show } from '../dom.js';
import { store } from '../store.js';

const MOST = 12;

export function find(me) {
  const found = h('ul', { id: 'found', role: 'listbox', 'aria-label': 'Found', hidden: true });
  let chosen = -1, asked = 0;
  const field = h('input', {
    id: 'find', type: 'search', role: 'combobox', placeholder: 'Find a queue or job ( / )', 'aria-label': 'Find a queue or job', autocomplete: 'off',
    'aria-expanded': 'false', 'aria-controls': 'found', 'aria-autocomplete': 'list',
    oninput: () => look(field.value.trim()),
    onkeydown: (event) => {
      const options = [...found.children];
      if (event.key === 'Escape') close();
      else if (event.key === 'ArrowDown' || event.key === 'ArrowUp') {
        if (!options.length) return;
        event.preventDefault();
        chosen = (chosen + (event.key === 'ArrowDown' ? 1 : -1) + options.length) % options.length;
        options.forEach((each, number) => each.setAttribute('aria-selected', String(number === chosen)));
        field.setAttribute('aria-activedescendant', options[chosen].id);
      } else if (event.key === 'Enter' && options.length) go(options[Math.max(0, chosen)].dataset.to);
    },
    onblur: () => setTimeout(close, 150),
  });

  function close() {
    found.hidden = true;
    field.setAttribute('aria-expanded', 'false');
    field.removeAttribute('aria-activedescendant');
  }

  function go(to) {
    field.value = '';
    close();
    location.hash = to;
  }

  function list(entries) {
    chosen = -1;
    show(found, entries.slice(0, MOST).map(({ kind, name, to }, number) => h('li', { id: `found-${number}`, role: 'option', 'aria-selected': 'false', 'data-to': to, onmousedown: () => go(to) }, h('span', { class: 'dim' }, kind), ' ', name)));
    found.hidden = !entries.length;
    field.setAttribute('aria-expanded', String(!found.hidden));
  }

  async function look(text) {
    const number = (asked += 1);
    if (text.length < 2) return close();
    const queues = [...store.queues.keys()].filter((each) => each.includes(text)).map((name) => ({ kind: 'ClusterQueue', name, to: `#/queues/${encodeURIComponent(name)}` }));
    const locals = [...store.namespaces.values()].filter((each) => each.name.includes(text)).map((each) => ({ kind: 'LocalQueue', name: `${each.namespace}/${each.name}`, to: `#/queues/${each.namespace}/${each.name}` }));
    list([...queues, ...locals]);
    try {
      const places = me.may.workloads ? [''] : me.namespaces.slice(0, 4);
      const jobs = (await Promise.all(places.map((namespace) => get(['find'], { q: text, namespace }).catch(() => ({ rows: [] }))))).flatMap((each) => each.rows);
      if (number === asked) list([...queues.slice(0, 6), ...locals.slice(0, 6), ...jobs.map((each) => ({ kind: 'Job', name: `${each.namespace}/${each.job || each.name}`, to: `#/jobs/${each.namespace}/${each.name}` }))]);
    } catch {
      // the queues are shown anyway
    }
    return undefined;
  }
  return h('div', { class: 'find', role: 'search' }, field, found);
}
