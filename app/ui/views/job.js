import { h } from '../dom.js';

export function job() {
  return { title: 'job', element: h('p', null, 'later') };
}
