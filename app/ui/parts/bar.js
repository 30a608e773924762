// <quota-bar>: what a queue uses of its quota. The forms are those of the pictures of `seiretsu simulate`: own use, what is
// borrowed beyond the line of the quota, what is reserved and does not run yet (hatched), what others use of it (dotted).

import { h } from '../dom.js';
import { amount } from '../format.js';

const parts = (cell) => {
  const nominal = cell.nominal ?? 0, total = cell.used + cell.notReady;
  const own = Math.min(cell.used, nominal), ownNotReady = Math.min(total, nominal) - own;
  return { nominal, total, own, ownNotReady, borrowed: Math.max(0, cell.used - nominal), borrowedNotReady: Math.max(0, total - nominal) - Math.max(0, cell.used - nominal), lent: cell.lent ?? 0 };
};

export function sentence(cell) {
  const say = (value) => amount(cell.resource, value);
  const told = [cell.nominal === undefined ? `${say(cell.used)} used` : `${say(cell.used)} used of ${say(cell.nominal)}`];
  if (cell.borrowed) told.push(`${say(cell.borrowed)} borrowed`);
  if (cell.notReady) told.push(`${say(cell.notReady)} reserved but not ready`);
  if (cell.lent) told.push(`${say(cell.lent)} lent`);
  return told.join(', ');
}

class QuotaBar extends HTMLElement {
  set cell(cell) {
    const found = parts(cell), most = Math.max(found.nominal, found.total, 1);
    const at = (value) => `${(100 * value) / most}%`;
    const piece = (kind, from, length) => length > 0 && h('i', { class: kind, style: { left: at(from), width: at(length) } });
    const own = found.own + found.ownNotReady;
    this.replaceChildren(...[
      piece('lent', found.nominal - found.lent, found.lent),
      piece('own', 0, found.own),
      piece('own waits', found.own, found.ownNotReady),
      piece('borrowed', own, found.borrowed),
      piece('borrowed waits', own + found.borrowed, found.borrowedNotReady),
      cell.nominal !== undefined && h('i', { class: 'quota', style: { left: at(found.nominal) } }),
    ].filter(Boolean));
    this.setAttribute('role', 'img');
    this.setAttribute('aria-label', `${cell.resource} in ${cell.flavor}: ${sentence(cell)}`);
    this.title = sentence(cell);
  }
}
customElements.define('quota-bar', QuotaBar);

export function bar(cell) {
  const made = document.createElement('quota-bar');
  made.cell = cell;
  return made;
}

export function legend() {
  const entry = (kind, text) => h('li', null, h('i', { class: `swatch ${kind}` }), text);
  return h('ul', { class: 'legend', 'aria-label': 'Legend of the bars' },
    entry('own', 'runs, on own quota'), entry('borrowed', 'borrowed'), entry('own waits', 'reserved, not ready'), entry('lent', 'lent: others use it'), entry('quota', 'quota'));
}
