// The copies: <id>/wanted is the content to copy, <id>/copy has been copied so far. There is no other state, so the next
// process that is asked about a copy continues it, even if another process does so at the same time.
import fs from 'node:fs';
import { setTimeout as sleep } from 'node:timers/promises';

const root = process.env.CLEAT_COPY_DIR ?? '/tmp/cleat-copies';
const slice = Number(process.env.CLEAT_COPY_BYTES_PER_SECOND ?? Infinity) / 20;
const running = new Set();
const failed = new Map(); // id: error, in this process; the next process tries again

const at = (id, file) => `${root}/${/^[0-9a-f]{64}$/.test(id) ? id : 'no-id'}/${file}`;
const stat = (file) => fs.statSync(file, { throwIfNoEntry: false });

function known(id) {
  const wanted = stat(at(id, 'wanted'));
  if (!wanted) throw new Error(`no operation ${JSON.stringify(id)} in ${root}`);
  return wanted;
}

export function start(id, content) {
  fs.mkdirSync(at(id, ''), { recursive: true });
  if (!stat(at(id, 'wanted'))) {
    fs.writeFileSync(at(id, process.pid), content);
    fs.renameSync(at(id, process.pid), at(id, 'wanted')); // atomic
  }
  run(id);
}

async function run(id) {
  if (running.has(id) || failed.has(id)) return;
  running.add(id);
  try {
    const wanted = fs.readFileSync(at(id, 'wanted'));
    const file = fs.openSync(at(id, 'copy'), fs.constants.O_WRONLY | fs.constants.O_CREAT);
    for (let done = fs.fstatSync(file).size; done < wanted.length && !stat(at(id, 'cancelled')); await sleep(50)) {
      done += fs.writeSync(file, wanted, done, Math.min(Math.max(1, slice), wanted.length - done), done);
    }
    fs.closeSync(file);
  } catch (err) {
    failed.set(id, err.message);
  }
  running.delete(id);
}

export function progress(id) {
  const wanted = known(id);
  run(id);
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

// content returns the copied content, or undefined if the copy is not complete.
export function content(id) {
  const copy = stat(at(id, 'copy'));
  return copy && copy.size === known(id).size ? fs.readFileSync(at(id, 'copy')) : undefined;
}

// mark records names for all processes; marked reports whether they were recorded.
const marker = (names) => `${root}/seen/=${names.map(encodeURIComponent).join('/=')}`;
export const mark = (...names) => fs.mkdirSync(marker(names), { recursive: true });
export const marked = (...names) => fs.existsSync(marker(names));
