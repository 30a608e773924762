import { h } from '../dom.js';

export function whatIf() {
  return { title: 'What if', element: h('p', null, 'later') };
}
