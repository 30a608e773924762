import { h } from '../dom.js';

export function topology() {
  return { title: 'topology', element: h('p', null, 'later') };
}
