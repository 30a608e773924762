// The domains of flavors with a topology: what is free and used in each, and whose pods are there.

import { get } from '../api.js';
import { bar } from '../parts/bar.js';
import { h, show } from '../dom.js';
import { count, short } from '../format.js';
import { store } from '../store.js';
import { jobLink } from './queue.js';

// The resource by which a domain is drawn: the scarcest kind, which is what accelerators are.
function main(domains) {
  const names = Object.keys(domains[0]?.amounts ?? {});
  return names.find((each) => each.includes('/') && !each.startsWith('kubernetes')) ?? (names.includes('cpu') ? 'cpu' : names[0]);
}

const cell = (resource, amount, flavor) => ({ flavor, resource, nominal: amount.has, used: amount.used, notReady: 0, borrowed: 0, lent: 0 });
const leaves = (domain) => (domain.domains ? domain.domains.flatMap(leaves) : [domain]);

function host(domain, resource, flavor) {
  const amount = domain.amounts[resource] ?? { has: 0, used: 0 };
  const whose = domain.workloads.map((each) => `${each.namespace}/${each.job || each.name}: ${count(each.pods, 'pod')}`);
  if (domain.others) whose.push(`others: ${count(domain.others, 'pod')}`);
  return h('li', { class: `host${domain.present ? '' : ' gone'}`, title: whose.join('\n') || 'no pods of workloads' },
    h('span', { class: 'name' }, domain.name), domain.present ? bar(cell(resource, amount, flavor)) : h('span', { class: 'dim' }, 'not ready'),
    h('span', { class: 'whose' }, domain.workloads.map((each, number) => [number > 0 && ', ', h('a', { href: jobLink(each) }, each.job || each.name)]), domain.others > 0 && h('span', { class: 'dim' }, ` ${domain.others} of others`), !domain.workloads.length && !domain.others && h('span', { class: 'dim' }, `${short(resource)}: ${amount.has - amount.used} free`)));
}

function group(domain, levels, depth, resource, flavor) {
  const [level, ...lower] = levels;
  const amount = domain.amounts[resource] ?? { has: 0, used: 0 };
  const head = [h('span', { class: 'dim' }, `${level} `), domain.name, h('span', { class: 'dim' }, ` ${amount.has - amount.used} of ${amount.has} ${short(resource)} free`)];
  const body = lower.length > 1 ? h('div', { class: 'racks' }, domain.domains.map((each) => group(each, lower, depth + 1, resource, flavor))) : h('ul', { class: 'hosts' }, domain.domains.map((each) => host(each, resource, flavor)));
  return h('section', { class: depth ? 'rack' : 'panel block' }, h(depth ? 'h3' : 'h2', null, head), body);
}

export function topology({ me, parts }) {
  const body = h('div', null, h('p', { class: 'loading' }, 'Loading'));
  let flavor = parts[0] ?? me.topologies[0] ?? '', timer, seen = '';

  async function read() {
    try {
      const found = await get(['topology', flavor]);
      const text = JSON.stringify(found);
      if (text === seen) return;
      seen = text;
      const resource = main(found.domains), all = found.domains.flatMap(leaves);
      show(body, h('p', { class: 'dim' }, `${count(all.length, found.levels.at(-1) === 'hostname' ? 'node' : found.levels.at(-1))}${found.levels.length > 1 ? ` in ${found.levels.slice(0, -1).map((each) => `${each}s`).join(' and ')}` : ''}`),
        found.levels.length > 1 ? found.domains.map((each) => group(each, found.levels, 0, resource, flavor)) : h('section', { class: 'panel block' }, h('ul', { class: 'hosts' }, found.domains.map((each) => host(each, resource, flavor)))));
    } catch (error) {
      show(body, h('p', { class: 'problem', role: 'alert' }, error.message));
    }
  }
  const choose = h('select', { id: 'flavor', onchange: () => { flavor = choose.value; seen = ''; read(); } }, me.topologies.map((each) => h('option', { value: each, selected: each === flavor }, each)));
  if (flavor) read(); else show(body, h('p', { class: 'note' }, 'No flavor has a topology, or you may not list nodes.'));
  let last = store.updated;
  return {
    title: 'Topology',
    element: [h('div', { class: 'titled' }, h('h1', null, 'Topology'), me.topologies.length > 0 && [h('label', { class: 'dim', for: 'flavor' }, 'Flavor'), choose]), body],
    update() {
      if (flavor && store.updated !== last) {
        last = store.updated;
        clearTimeout(timer);
        timer = setTimeout(read, 500);
      }
    },
    leave: () => clearTimeout(timer),
  };
}
