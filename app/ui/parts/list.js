// <virtual-list>: a long list of which only the rows on screen are elements. Heights are known before rows are drawn, so
// that the list can be scrolled to any place at once. Keys move between rows; a row that has the focus keeps it.

import { h } from '../dom.js';

const BESIDE = 6;

class VirtualList extends HTMLElement {
  constructor() {
    super();
    this.count = 0;
    this.shown = new Map();
    this.place = () => this.draw();
  }

  // item(number) returns {key, data} or null while it is not known; height(number) in pixels; render(data, number) an element.
  connectedCallback() {
    this.setAttribute('role', 'list');
    addEventListener('scroll', this.place, { passive: true });
    addEventListener('resize', this.refresh = () => this.update(true));
    this.addEventListener('keydown', (event) => this.key(event));
  }

  disconnectedCallback() {
    removeEventListener('scroll', this.place);
    removeEventListener('resize', this.refresh);
  }

  set source(source) {
    this.from = source;
    this.update(true);
  }

  // The number of rows, or their heights, may have changed; `anew` draws every row again.
  update(anew = false) {
    const { from } = this;
    if (!from) return;
    this.count = from.count();
    if (from.fixed) {
      this.tops = null;
      this.fixed = from.fixed();
      this.total = this.count * this.fixed;
    } else {
      this.tops = new Float64Array(this.count + 1);
      for (let number = 0; number < this.count; number += 1) this.tops[number + 1] = this.tops[number] + from.height(number);
      this.total = this.tops[this.count];
    }
    this.style.height = `${this.total}px`;
    if (anew) for (const [key, row] of this.shown) { row.element.remove(); this.shown.delete(key); }
    this.draw();
  }

  top(number) {
    return this.tops ? this.tops[number] : number * this.fixed;
  }

  at(pixel) {
    if (!this.tops) return Math.floor(pixel / this.fixed);
    let low = 0, high = this.count;
    while (low < high) {
      const middle = (low + high + 1) >> 1;
      if (this.tops[middle] <= pixel) low = middle; else high = middle - 1;
    }
    return low;
  }

  draw() {
    if (!this.from || !this.isConnected) return;
    const above = -this.getBoundingClientRect().top;
    const first = Math.max(0, Math.min(this.at(Math.max(0, above)) - BESIDE, this.count));
    const last = Math.min(this.count, this.at(Math.max(0, above + innerHeight)) + 1 + BESIDE);
    this.from.wanted?.(first, last);
    const keep = new Set();
    for (let number = first; number < last; number += 1) {
      const item = this.from.item(number) ?? { key: `#${number}`, data: null };
      keep.add(item.key);
      const known = this.shown.get(item.key);
      if (known && known.data === item.data && known.number === number) continue;
      if (known && known.data === item.data) {
        known.number = number;
        this.settle(known.element, number);
        continue;
      }
      const element = this.from.render(item.data, number);
      this.settle(element, number);
      if (known) {
        const focused = known.element.contains(document.activeElement);
        known.element.replaceWith(element);
        if (focused) (element.querySelector('a, button') ?? element).focus({ preventScroll: true });
      } else this.append(element);
      this.shown.set(item.key, { element, data: item.data, number });
    }
    for (const [key, row] of this.shown) {
      if (!keep.has(key) && !row.element.contains(document.activeElement)) {
        row.element.remove();
        this.shown.delete(key);
      } else if (!keep.has(key)) row.data = undefined;
    }
  }

  settle(element, number) {
    element.style.height = `${this.tops ? this.tops[number + 1] - this.tops[number] : this.fixed}px`;
    element.style.transform = `translateY(${this.top(number)}px)`;
    element.setAttribute('role', 'listitem');
    element.setAttribute('aria-posinset', number + 1);
    element.setAttribute('aria-setsize', this.count);
  }

  key(event) {
    const step = { ArrowDown: 1, ArrowUp: -1, j: 1, k: -1 }[event.key];
    const row = event.target.closest?.('[aria-posinset]');
    if (!step || !row || event.target.matches('input, select, textarea')) return;
    const number = Number(row.getAttribute('aria-posinset')) - 1 + step;
    if (number < 0 || number >= this.count) return;
    event.preventDefault();
    const top = this.getBoundingClientRect().top + this.top(number);
    if (top < 80) scrollBy(0, top - 80);
    else if (top > innerHeight - 120) scrollBy(0, top - innerHeight + 120);
    this.draw();
    this.querySelector(`[aria-posinset="${number + 1}"] a, [aria-posinset="${number + 1}"] button`)?.focus({ preventScroll: true });
  }
}
customElements.define('virtual-list', VirtualList);

export const virtualList = (label) => h('virtual-list', { 'aria-label': label });

// Changes that follow one another are fetched once in this time: the line of a busy queue changes all the time.
const APART_MS = 1000;

// Rows that the server has in pages: those on screen are fetched, and again when they may have changed.
export class Pages {
  constructor(fetched, arrived, size = 100) {
    Object.assign(this, { fetched, arrived, size, total: 0, pages: new Map(), asked: new Map(), version: 0, first: 0, last: 0, next: 0, timer: 0 });
  }

  item(number) {
    const page = this.pages.get(Math.floor(number / this.size));
    return page?.rows[number % this.size] ?? null;
  }

  want(first, last) {
    [this.first, this.last] = [first, last];
    for (let page = Math.floor(first / this.size); page <= Math.floor(Math.max(first, last - 1) / this.size); page += 1) {
      const known = this.pages.get(page), asked = this.asked.get(page);
      if (known?.version !== this.version && asked === undefined) this.ask(page);
    }
    if (this.pages.size > 50) for (const page of [...this.pages.keys()].slice(0, 25)) if (page < first / this.size - 2 || page > last / this.size + 2) this.pages.delete(page);
  }

  // Something has changed: what is on screen is asked for again, what is not when it is scrolled to.
  changed() {
    const now = performance.now();
    if (now < this.next) {
      this.timer ||= setTimeout(() => { this.timer = 0; this.changed(); }, this.next - now);
      return;
    }
    this.next = now + APART_MS;
    this.version += 1;
    this.want(this.first, Math.max(this.last, this.first + 1));
  }

  async ask(page) {
    const { version } = this;
    this.asked.set(page, version);
    try {
      const found = await this.fetched(page * this.size, this.size);
      this.total = found.total;
      this.pages.set(page, { rows: found.rows, version });
      this.failed = null;
    } catch (error) {
      this.failed = error;
    }
    this.asked.delete(page);
    this.arrived(this.failed);
    if (version !== this.version && !this.failed) this.want(this.first, Math.max(this.last, this.first + 1));
  }
}
