// Numbers and times as people read them.

const BYTES = ['', 'Ki', 'Mi', 'Gi', 'Ti', 'Pi', 'Ei'];
const isBytes = (resource) => resource === 'memory' || resource === 'ephemeral-storage' || resource.startsWith('hugepages-');

const trimmed = (value) => (Math.abs(value) >= 100 ? Math.round(value).toLocaleString('en') : String(Number(value.toFixed(Math.abs(value) >= 10 ? 1 : 2))));

// An amount in base units: thousandths of a cpu, bytes, or units.
export function amount(resource, value) {
  if (resource === 'cpu') return trimmed(value / 1000);
  if (!isBytes(resource)) return value.toLocaleString('en');
  let power = 0;
  while (Math.abs(value) >= 1024 && power < BYTES.length - 1) {
    value /= 1024;
    power += 1;
  }
  return `${trimmed(value)}${BYTES[power] ? ` ${BYTES[power]}B` : ' B'}`;
}

// The last part of the name of a resource: nvidia.com/gpu is gpu.
export const short = (name) => name.slice(name.lastIndexOf('/') + 1);

export function count(number, one, many = `${one}s`) {
  return `${number.toLocaleString('en')} ${number === 1 ? one : many}`;
}

const UNITS = [[120, 1, 's'], [7200, 60, 'min'], [172800, 3600, 'h'], [Infinity, 86400, 'd']];

export function span(seconds) {
  const [, unit, name] = UNITS.find(([most]) => Math.max(0, seconds) < most);
  return `${Math.round(Math.max(0, seconds) / unit)} ${name}`;
}

// How long ago a moment was, by the clock of the server.
let ahead = 0;
export const setNow = (server) => { ahead = server - Date.now() / 1000; };
export const now = () => Date.now() / 1000 + ahead;
export const since = (moment) => span(now() - moment);

export function clock(moment) {
  return new Date(moment * 1000).toLocaleString(undefined, { dateStyle: 'medium', timeStyle: 'medium' });
}

export function percent(part, whole) {
  return whole > 0 ? `${Math.round((100 * part) / whole)} %` : '–';
}
