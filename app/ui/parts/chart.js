// A stacked chart over time, by uPlot; and the same numbers as a table for those who do not see it.

import uPlot from '../vendor/uPlot.js';
import { h } from '../dom.js';

const HUES = [['#2f8f68', '#43b389'], ['#9a55b8', '#c08ad8'], ['#bf8a12', '#e0b04a'], ['#1d5fb8', '#82b4f5'], ['#c8442f', '#e8705c'], ['#3b7f8c', '#6fc0cf'], ['#8a6d3b', '#cdae76'], ['#6b7480', '#a3abb6'], ['#b0b6bf', '#59616c']];

const dark = () => getComputedStyle(document.documentElement).getPropertyValue('--paper').trim() !== '#fff';
const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

export function chart(place, { times, series, quota, label, say }) {
  const hue = (number) => HUES[Math.min(number, HUES.length - 1)][dark() ? 1 : 0];
  const stacked = [];
  let below = times.map(() => 0);
  for (const each of series) stacked.push(below = below.map((value, number) => value + (each.values[number] ?? 0)));
  let drawn = null;
  const axis = { stroke: colour('--dim'), grid: { stroke: colour('--edge'), width: 1 }, ticks: { stroke: colour('--edge'), width: 1 }, font: '12px system-ui, sans-serif' };

  function begin() {
    const order = series.map((_, number) => series.length - 1 - number);
    const options = {
      width: Math.max(240, place.clientWidth - 2.5 * parseFloat(getComputedStyle(document.documentElement).fontSize)), height: 240, padding: [12, 16, 0, 0], legend: { show: false },
      cursor: { drag: { x: false, y: false }, points: { show: false } },
      scales: { y: { range: (_, low, high) => [0, (high || 1) * 1.08] } },
      axes: [axis, { ...axis, size: 76, values: (_, ticks) => ticks.map(say) }],
      series: [{}, ...order.map((number) => ({ label: series[number].name, stroke: hue(number), fill: hue(number), width: 0, points: { show: false }, paths: uPlot.paths.stepped({ align: 1 }) })), ...(quota ? [{ label: 'quota', stroke: colour('--quota'), width: 1.5, dash: [5, 3], points: { show: false }, paths: uPlot.paths.stepped({ align: 1 }) }] : [])],
    };
    drawn = new uPlot(options, [times, ...order.map((number) => stacked[number]), ...(quota ? [quota] : [])], place);
    drawn.root.setAttribute('role', 'img');
    drawn.root.setAttribute('aria-label', `${label}: ${series.map((each) => `${each.name} ${say(each.values.at(-1) ?? 0)} at the end, at most ${say(Math.max(...each.values))}`).join('; ')}`);
  }
  place.append(h('ul', { class: 'legend pad' }, series.map((each, number) => h('li', null, h('i', { class: 'swatch', style: { background: hue(number) } }), each.name, h('span', null, ` ${say(each.values.at(-1) ?? 0)}`)))));
  return { begin, destroy: () => drawn?.destroy() };
}
