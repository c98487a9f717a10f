// The copies: <id>/wanted is what is copied, <id>/copy what has been so far. The directory is all the state there is, so
// a copy goes on in whichever process is asked about it next, also in two at once.
import fs from 'node:fs';
import path from 'node:path';

const root = process.env.CLEAT_COPY_DIR ?? '/tmp/cleat-copies';
const slice = Number(process.env.CLEAT_COPY_BYTES_PER_SECOND ?? Infinity) / 20;
const running = new Set();
const failed = new Map(); // in this process; the next one tries again

function at(id, file) {
  if (!/^[0-9a-f]{64}$/.test(id)) throw new Error(`operation id ${JSON.stringify(id)} is none of mine`);
  return path.join(root, id, file);
}

const stat = (file) => fs.statSync(file, { throwIfNoEntry: false });

function known(id) {
  const wanted = stat(at(id, 'wanted'));
  if (!wanted) throw new Error(`no operation ${id} in ${root}`);
  return wanted;
}

export function start(id, content) {
  const wanted = at(id, 'wanted');
  fs.mkdirSync(path.dirname(wanted), { recursive: true });
  if (!stat(wanted)) {
    fs.writeFileSync(`${wanted}.${process.pid}`, content);
    fs.renameSync(`${wanted}.${process.pid}`, wanted); // there whole or not at all
  }
  go(id);
}

function go(id) {
  if (running.has(id) || failed.has(id)) return;
  running.add(id);
  const wanted = fs.readFileSync(at(id, 'wanted'));
  const step = () => {
    try {
      const done = stat(at(id, 'copy'))?.size ?? 0;
      if (done >= wanted.length || stat(at(id, 'cancelled'))) return running.delete(id);
      const file = fs.openSync(at(id, 'copy'), fs.constants.O_WRONLY | fs.constants.O_CREAT);
      fs.writeSync(file, wanted, done, Math.min(Math.max(1, slice), wanted.length - done), done);
      fs.closeSync(file);
      return setTimeout(step, 50);
    } catch (err) {
      failed.set(id, err.message);
      return running.delete(id);
    }
  };
  step();
}

export function progress(id) {
  const wanted = known(id);
  go(id);
  const [copy, cancelled] = [stat(at(id, 'copy')), stat(at(id, 'cancelled'))];
  const done = copy?.size ?? 0;
  const err = cancelled ? 'cancelled' : failed.get(id) ?? '';
  const time = ({ mtimeMs }) => ({ seconds: Math.floor(mtimeMs / 1000), nanos: Math.floor(mtimeMs % 1000) * 1e6 });
  return {
    completed: done >= wanted.size || err !== '', err, nCompleted: done, nTotal: wanted.size, operationUnits: 'bytes',
    description: 'copying', started: time(wanted), updated: time(cancelled ?? copy ?? wanted),
  };
}

export function cancel(id) {
  if (known(id).size > (stat(at(id, 'copy'))?.size ?? 0)) fs.writeFileSync(at(id, 'cancelled'), '');
}

// content is what was copied, undefined when there is no whole copy.
export const content = (id) => (stat(at(id, 'copy'))?.size === stat(at(id, 'wanted'))?.size ? fs.readFileSync(at(id, 'copy')) : undefined);

// mark remembers names, also for other processes; marked tells whether they were.
const marker = (names) => path.join(root, 'seen', ...names.map((name) => `=${encodeURIComponent(name)}`));
export const mark = (...names) => fs.mkdirSync(marker(names), { recursive: true });
export const marked = (...names) => fs.existsSync(marker(names));
