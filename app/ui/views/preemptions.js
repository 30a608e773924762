import { h } from '../dom.js';

export function preemptions() {
  return { title: 'preemptions', element: h('p', null, 'later') };
}
