import { h } from '../dom.js';

export function clusters() {
  return { title: 'clusters', element: h('p', null, 'later') };
}
