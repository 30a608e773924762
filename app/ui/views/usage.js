import { h } from '../dom.js';

export function usage() {
  return { title: 'usage', element: h('p', null, 'later') };
}
